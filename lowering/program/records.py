"""Converts the schedule of a module at the `program` stage to a ``Program`` of typed records.

A record is a run of consecutive rTasks of an rOperator, or a barrier.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rammer_mlir.bindings import ir
from rammer_mlir.errors import PassError
from rammer_mlir.passes.ir.constants import CONSTANT, argument_attributes
from rammer_mlir.passes.ir.entry import entry_function, functions, symbol_name
from rammer_mlir.passes.ir.structured import element_bytes
from rammer_mlir.passes.program.program_ir import OperatorCall, ScheduledModule
from rammer_mlir.passes.program.task_graph import root_of
from rammer_mlir.passes.rtask_plan_memory import ARENA, view_start
from rammer_mlir.programs.records import (
    BarrierRecord,
    KernelSymbol,
    Launch,
    Operator,
    Program,
    Record,
    RunRecord,
    Slot,
)
from rammer_mlir.scheduling.program import Barrier, Item, RProgram, Run


def program_of(
    scheduled: ScheduledModule, resolver: SlotResolver, num_veus: int, *, separate: bool = False
) -> Program:
    """Return a schedule as a ``Program``: rKernels, rOperators, runs and barriers of each vEU.

    Args:
        scheduled: a module at the `program` stage whose memory is planned.
        resolver: finds the slot of each buffer.
        num_veus: number of vEUs that run the program, at least the largest vEU count of an
            rProgram.
        separate: launch each rProgram separately; otherwise they run in order in one launch, with a
            global barrier between them.

    Raises:
        PassError: if a buffer of an rTask is neither an argument nor in the arena, or an offset is
            not static.
    """
    programs = scheduled.plan.programs
    groups = [[program] for program in programs] if separate else [programs]
    kernels = _kernels_by_first_use(scheduled)
    launches = tuple(_launch(group, num_veus) for group in groups)
    if any(scheduled.builder.kernel(kernel.name).is_exclusive for kernel in kernels):
        launches = tuple(map(_without_last_waits, launches))
    return Program(
        kernels=tuple(kernels),
        operators=tuple(
            Operator(operator.name, _number(kernels, call), resolver.slots(call))
            for operator, call in zip(scheduled.builder.operators, scheduled.calls, strict=True)
        ),
        launches=launches,
    )


def _kernels_by_first_use(scheduled: ScheduledModule) -> dict[KernelSymbol, int]:
    kernels: dict[KernelSymbol, int] = {}
    for program in scheduled.plan.programs:
        for item in (item for veu in program.veus for item in veu if isinstance(item, Run)):
            call = scheduled.calls[item.operator]
            kernels.setdefault(_symbol(call), len(kernels))
    return kernels


def _symbol(call: OperatorCall) -> KernelSymbol:
    return KernelSymbol(call.kernel, len(call.operands))


def _number(kernels: Mapping[KernelSymbol, int], call: OperatorCall) -> int:
    return kernels[_symbol(call)]


def _launch(programs: Sequence[RProgram], num_veus: int) -> Launch:
    """Return a launch in which ``num_veus`` vEUs execute all ``programs``, one after the other.

    Each rProgram waits for the end of the previous rProgram on all vEUs.
    """
    veus: list[list[Record]] = [[] for _ in range(num_veus)]
    steps = [0] * num_veus
    for program in programs:
        before = tuple(steps)
        for veu, items in enumerate(program.veus):
            others = tuple((v, s) for v, s in enumerate(before) if v != veu and s)
            if others:
                veus[veu].append(BarrierRecord(others))
            veus[veu].extend(_record(item, before) for item in items)
            steps[veu] += sum(item.count for item in items if isinstance(item, Run))
    return Launch(tuple(map(tuple, veus)))


def _without_last_waits(launch: Launch) -> Launch:
    """Return a copy of a launch without the barriers after each vEU's last rTask.

    The list of a vEU without rTasks becomes empty, so that this vEU need not be launched.
    """
    veus: list[tuple[Record, ...]] = []
    for records in launch.veus:
        runs = [n for n, record in enumerate(records) if isinstance(record, RunRecord)]
        veus.append(records[: runs[-1] + 1] if runs else ())
    return Launch(tuple(veus))


def _record(item: Item, before: Sequence[int]) -> Record:
    if isinstance(item, Barrier):
        return BarrierRecord(tuple((veu, before[veu] + order + 1) for veu, order in item.waits))
    return RunRecord(item.operator, item.first, item.count)


class SlotResolver:
    """Finds the slot of each buffer of a scheduled module.

    A slot is a base (input, output, constant or arena), the index of the input or output, and a
    byte offset.
    """

    def __init__(self, scheduled: ScheduledModule, constant_offsets: Mapping[int, int]) -> None:
        """Collect the module's functions, and the attributes of the entry function's arguments.

        Args:
            scheduled: a module at the `program` stage whose memory is planned.
            constant_offsets: byte offset of each weight in the array of all constants, by the
                argument index of the weight.
        """
        main = entry_function(scheduled.builder.module)
        self._constant_offsets = constant_offsets
        self._attributes = argument_attributes(main)
        self._index = _interface_index(self._attributes)
        self._known: dict[tuple[ir.Value, int], Slot] = {}
        self._functions = {symbol_name(op): op for op in functions(scheduled.builder.module)}

    def slots(self, call: OperatorCall) -> tuple[Slot, ...]:
        """Return the slot of the pointer that is passed to an rKernel for each operand of a call.

        An rKernel adds the static offset of an argument's memref type to the pointer, so the slot
        excludes this offset.
        """
        inside = self.kernel_offsets(call.kernel)
        return tuple(map(self._slot, call.operands, inside))

    def kernel_offsets(self, kernel: str) -> list[int]:
        """Return the static byte offset that an rKernel adds to each of its pointer arguments.

        Raises:
            PassError: if an offset is dynamic.
        """
        kind = ir.TypeAttr(self._functions[kernel].operation.attributes["function_type"]).value
        return [_offset_bytes(buffer, f"@{kernel}") for buffer in ir.FunctionType(kind).inputs[1:]]

    def _slot(self, value: ir.Value, inside: int) -> Slot:
        """Return the slot of the pointer that is passed to an rKernel for a view of a buffer.

        The pointer is ``inside`` bytes before the view's first element, because the rKernel adds
        ``inside`` to the pointer.
        """
        key = value, inside
        if key not in self._known:
            root = root_of(value)
            start = _offset_bytes(value.type, "a run") - _offset_bytes(root.type, "a run")
            place = self.place(root)
            self._known[key] = Slot(place.base, place.index, place.offset + start - inside)
        return self._known[key]

    def place(self, root: ir.Value) -> Slot:
        """Return the slot of a buffer's start; the buffer is an argument or lies in the arena."""
        number, offset = argument_place(root)
        attributes = self._attributes[number]
        if ARENA in attributes:
            return Slot("arena", 0, offset)
        if CONSTANT in attributes:
            return Slot("constant", 0, self._constant_offsets[number] + offset)
        return Slot(
            "output" if "rtask.output" in attributes else "input", self._index[number], offset
        )


class ArgumentResolver(SlotResolver):
    """Resolves each buffer to an argument of the entry function and a byte offset.

    All arguments count as inputs, including outputs, weights and the arena, because the caller of
    the lowered function passes all of them.
    """

    def __init__(self, scheduled: ScheduledModule) -> None:
        """Create a resolver for a module at the `program` stage whose memory is planned."""
        super().__init__(scheduled, {})

    def place(self, root: ir.Value) -> Slot:
        """Return the slot of a buffer's start, with the base ``input`` and an argument index."""
        return Slot("input", *argument_place(root))


def argument_place(root: ir.Value) -> tuple[int, int]:
    """Return the index of the argument that contains a buffer, and the buffer's byte offset there.

    The argument is the buffer itself (offset 0) or the arena.

    Raises:
        PassError: if the buffer is neither an argument nor in the arena.
    """
    owner, offset = root.owner, 0
    if not isinstance(owner, ir.Block):
        if owner.operation.name != "memref.view":
            raise PassError(
                f"a run uses the result of '{owner.operation.name}': expected an argument or "
                "a view of the arena; run rtask-plan-memory first"
            )
        offset = view_start(owner.opview)
        root = owner.operation.operands[0]
    return ir.BlockArgument(root).arg_number, offset


def _offset_bytes(kind: ir.Type, user: str) -> int:
    """Return the static offset of a memref type, converted to bytes.

    ``user`` names the operation or rKernel that uses the type, for messages.

    Raises:
        PassError: if the offset is dynamic.
    """
    offset = ir.MemRefType(kind).get_strides_and_offset()[1]
    if offset == ir.ShapedType.get_dynamic_stride_or_offset():
        raise PassError(
            f"{user} uses a buffer of type {kind}: expected a static offset; give it in the type"
        )
    return offset * element_bytes(kind)


def _interface_index(attributes: Sequence[Mapping[str, ir.Attribute]]) -> dict[int, int]:
    """Return the index of each input among all inputs, and of each output among all outputs.

    The keys are argument indices of the entry function. ``attributes`` has the attributes of each
    argument, which mark outputs, weights and the arena. Weights and the arena are left out of the
    result.
    """
    index: dict[int, int] = {}
    counts = {"input": 0, "output": 0}
    for number, entry in enumerate(attributes):
        if CONSTANT not in entry and ARENA not in entry:
            kind = "output" if "rtask.output" in entry else "input"
            index[number] = counts[kind]
            counts[kind] += 1
    return index
