"""The task table of a scheduled module: what each vEU does, as numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from rammer_mlir.bindings import ir
from rammer_mlir.errors import PassError
from rammer_mlir.passes.ir.constants import CONSTANT, argument_attributes
from rammer_mlir.passes.ir.entry import entry_function, functions, symbol_name
from rammer_mlir.passes.ir.structured import element_bytes
from rammer_mlir.passes.program.program_ir import OperatorCall, ScheduledModule
from rammer_mlir.passes.program.task_graph import root_of
from rammer_mlir.passes.rtask_plan_memory import ARENA, view_start
from rammer_mlir.programs.cpu_image import Slot, TaskTable, TraceItem
from rammer_mlir.scheduling.program import Barrier, RProgram, Run

BARRIER, END = -1, -2
"""Kinds of records that are not runs."""


@dataclass(frozen=True)
class KernelSymbol:
    """An rKernel that the dispatch code calls: its symbol and its number of buffers."""

    name: str
    num_arguments: int


@dataclass(frozen=True)
class Tables:
    """A scheduled module as data."""

    table: TaskTable
    slots: tuple[Slot, ...]
    kernels: tuple[KernelSymbol, ...]


def build_tables(
    scheduled: ScheduledModule,
    constant_offsets: Mapping[int, int],
    num_veus: int,
    *,
    separate: bool = False,
) -> Tables:
    """Write down a plan's programs one after the other, with a global barrier between them.

    Args:
        scheduled: a module at the `program` stage whose memory is planned.
        constant_offsets: byte offset of each weight argument in the constants.
        num_veus: vEUs that run it, at least as many as any program has.
        separate: leave the global barriers out, where each program is a launch of its own.

    Raises:
        PassError: if a run's buffer is neither an argument nor in the arena, or an offset is not
            static.
    """
    writer = _Writer(scheduled, constant_offsets, num_veus)
    for program in scheduled.plan.programs:
        writer.program(program, separate=separate)
    return writer.finish()


@dataclass
class _Veu:
    records: list[int] = field(default_factory=list[int])
    items: list[TraceItem] = field(default_factory=list[TraceItem])
    steps: int = 0


class _Writer:
    def __init__(
        self, scheduled: ScheduledModule, constant_offsets: Mapping[int, int], num_veus: int
    ) -> None:
        self._scheduled = scheduled
        self._resolver = _Resolver(scheduled, constant_offsets)
        self._veus = [_Veu() for _ in range(num_veus)]
        self._kernels: dict[str, int] = {}
        self._sizes: dict[str, int] = {}
        self._arguments: list[int] = []
        self._argument_starts: dict[int, int] = {}

    def program(self, program: RProgram, *, separate: bool) -> None:
        before = [veu.steps for veu in self._veus]
        for number, items in enumerate(program.veus):
            veu = self._veus[number]
            others = [(v, s) for v, s in enumerate(before) if v != number and s and not separate]
            if others:
                self._barrier(veu, others)
            for item in items:
                if isinstance(item, Barrier):
                    self._barrier(veu, [(v, before[v] + order + 1) for v, order in item.waits])
                else:
                    self._run(veu, item)

    def _barrier(self, veu: _Veu, waits: Sequence[tuple[int, int]]) -> None:
        flat = [number for wait in waits for number in wait]
        veu.records.extend((BARRIER, len(waits), *flat))
        veu.items.append(TraceItem("barrier", "", 0, 0))

    def _run(self, veu: _Veu, run: Run) -> None:
        call = self._scheduled.calls[run.operator]
        kernel = self._kernels.setdefault(call.kernel, len(self._kernels))
        self._sizes[call.kernel] = len(call.operands)
        start = self._argument_start(run.operator, call)
        veu.records.extend((kernel, run.first, run.count, start))
        name = self._scheduled.builder.operators[run.operator].name
        veu.items.append(TraceItem(name, call.kernel, run.first, run.count))
        veu.steps += run.count

    def _argument_start(self, operator: int, call: OperatorCall) -> int:
        if operator not in self._argument_starts:
            self._argument_starts[operator] = len(self._arguments)
            inside = self._resolver.kernel_offsets(call.kernel)
            self._arguments.extend(map(self._resolver.slot, call.operands, inside))
        return self._argument_starts[operator]

    def finish(self) -> Tables:
        records: list[int] = []
        starts: list[int] = []
        for veu in self._veus:
            starts.append(len(records))
            records.extend((*veu.records, END))
        table = TaskTable(
            records=np.array(records, dtype=np.int32),
            starts=np.array(starts, dtype=np.int32),
            arguments=np.array(self._arguments, dtype=np.int32),
            totals=np.array([veu.steps for veu in self._veus], dtype=np.int64),
            items=tuple(tuple(veu.items) for veu in self._veus),
        )
        kernels = tuple(KernelSymbol(name, self._sizes[name]) for name in self._kernels)
        return Tables(table, tuple(self._resolver.slots), kernels)


class _Resolver:
    """Numbers the distinct addresses that runs use."""

    def __init__(self, scheduled: ScheduledModule, constant_offsets: Mapping[int, int]) -> None:
        main = entry_function(scheduled.builder.module)
        self._constant_offsets = constant_offsets
        self._attributes = argument_attributes(main)
        self._index = _interface_index(self._attributes)
        self._numbers: dict[Slot, int] = {}
        self._known: dict[tuple[ir.Value, int], int] = {}
        self._functions = {symbol_name(op): op for op in functions(scheduled.builder.module)}

    @property
    def slots(self) -> list[Slot]:
        return list(self._numbers)

    def kernel_offsets(self, kernel: str) -> list[int]:
        """Return the bytes that an rKernel itself adds to each pointer, by its buffers' types."""
        kind = ir.TypeAttr(self._functions[kernel].operation.attributes["function_type"]).value
        return [_offset_bytes(buffer, f"@{kernel}") for buffer in ir.FunctionType(kind).inputs[1:]]

    def slot(self, value: ir.Value, inside: int) -> int:
        """Number the address from which ``inside`` more bytes lead to a view's first element."""
        key = value, inside
        if key not in self._known:
            slot = self._resolve(value, inside)
            self._known[key] = self._numbers.setdefault(slot, len(self._numbers))
        return self._known[key]

    def _resolve(self, value: ir.Value, inside: int) -> Slot:
        root = root_of(value)
        offset = _offset_bytes(value.type, "a run") - _offset_bytes(root.type, "a run") - inside
        owner = root.owner
        if not isinstance(owner, ir.Block):
            if owner.operation.name != "memref.view":
                raise PassError(
                    f"a run uses the result of '{owner.operation.name}': expected an argument or "
                    "a view of the arena; run rtask-plan-memory first"
                )
            offset += view_start(owner.opview)
            root = owner.operation.operands[0]
        number = ir.BlockArgument(root).arg_number
        attributes = self._attributes[number]
        if ARENA in attributes:
            return Slot("arena", 0, offset)
        if CONSTANT in attributes:
            return Slot("constant", 0, self._constant_offsets[number] + offset)
        base = "output" if "rtask.output" in attributes else "input"
        return Slot(base, self._index[number], offset)


def _offset_bytes(kind: ir.Type, user: str) -> int:
    """Return the static offset of a memref type in bytes."""
    offset = ir.MemRefType(kind).get_strides_and_offset()[1]
    if offset == ir.ShapedType.get_dynamic_stride_or_offset():
        raise PassError(
            f"{user} uses a buffer of type {kind}: expected a static offset; give it in the type"
        )
    return offset * element_bytes(kind)


def _interface_index(attributes: Sequence[Mapping[str, ir.Attribute]]) -> dict[int, int]:
    """Number the inputs and the outputs among the arguments, each from zero."""
    index: dict[int, int] = {}
    counts = {"input": 0, "output": 0}
    for number, entry in enumerate(attributes):
        if CONSTANT not in entry and ARENA not in entry:
            kind = "output" if "rtask.output" in entry else "input"
            index[number] = counts[kind]
            counts[kind] += 1
    return index
