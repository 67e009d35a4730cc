"""Converts a plan, the schedule of a module, to ``rtask.program`` operations and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rammer_mlir.bindings import ir
from rammer_mlir.errors import PassError
from rammer_mlir.passes.ir.entry import entry_block, entry_function
from rammer_mlir.passes.program.task_graph import GraphBuilder, operator_name
from rammer_mlir.scheduling.program import Barrier, Plan, RProgram, Run

PROGRAM = "rtask.program"

_REQUESTED = "rtask.requested_waits"
_SECONDS = "rtask.predicted_seconds"
_NOTES = "rtask.policy_notes"


@dataclass(frozen=True)
class OperatorCall:
    """The properties that all ``rtask.run`` operations of an rOperator have in common.

    Attributes:
        kernel: the symbol name of the rKernel.
        operands: the memrefs that are passed to the rKernel.
        location: the location of the operations, which names the operator.
    """

    kernel: str
    operands: Sequence[ir.Value]
    location: ir.Location


@dataclass(frozen=True)
class ScheduledModule:
    """The schedule of a module at the `program` stage, as read from its rPrograms.

    Attributes:
        builder: the builder to which the operators were added; ``builder.graph()`` is the task
            graph.
        plan: the schedule; it identifies operators by their index in the task graph.
        calls: the rKernel and operands of each operator, by the same index.
        device: the name of the device for which the module is scheduled.
    """

    builder: GraphBuilder
    plan: Plan
    calls: tuple[OperatorCall, ...]
    device: str


def program_operations(module: ir.Module) -> list[ir.OpView]:
    """Return the entry function's ``rtask.program`` operations in order."""
    return [op for op in entry_block(module).operations if op.operation.name == PROGRAM]


def write_plan(
    plan: Plan, calls: Mapping[int, OperatorCall], device: str, ip: ir.InsertionPoint
) -> None:
    """Emit an ``rtask.program`` for each rProgram of the plan.

    Args:
        plan: the schedule.
        calls: the rKernel and operands of each operator, by the operator's index in the plan.
        device: the name of the device for which the plan was made.
        ip: the insertion point of the operations.
    """
    i64 = ir.IntegerType.get_signless(64)
    for program in plan.programs:
        op = ir.Operation.create(
            PROGRAM,
            attributes={
                "device": ir.StringAttr.get(device),
                "num_veus": ir.IntegerAttr.get(i64, program.num_veus),
            },
            regions=1,
            loc=ir.Location.unknown(),
            ip=ip,
        )
        body = op.regions[0].blocks.append()
        for number, items in enumerate(program.veus):
            _write_veu(number, items, calls, ir.InsertionPoint(body))


def _write_veu(
    number: int,
    items: Sequence[Run | Barrier],
    calls: Mapping[int, OperatorCall],
    ip: ir.InsertionPoint,
) -> None:
    i64 = ir.IntegerType.get_signless(64)
    unknown = ir.Location.unknown()
    veu = ir.Operation.create(
        "rtask.veu",
        attributes={"id": ir.IntegerAttr.get(i64, number)},
        regions=1,
        loc=unknown,
        ip=ip,
    )
    inner = ir.InsertionPoint(veu.regions[0].blocks.append())
    for item in items:
        if isinstance(item, Barrier):
            flat = [number for pair in item.waits for number in pair]
            waits = {"waits": ir.DenseI64ArrayAttr.get(flat)}
            ir.Operation.create("rtask.barrier", attributes=waits, loc=unknown, ip=inner)
            continue
        call = calls[item.operator]
        ir.Operation.create(
            "rtask.run",
            operands=call.operands,
            attributes={
                "kernel": ir.FlatSymbolRefAttr.get(call.kernel),
                "operator_id": ir.IntegerAttr.get(i64, item.operator),
                "first": ir.IntegerAttr.get(i64, item.first),
                "count": ir.IntegerAttr.get(i64, item.count),
            },
            loc=call.location,
            ip=inner,
        )


def rewrite_plan(module: ir.Module, change: Callable[[Plan], Plan]) -> None:
    """Replace the rPrograms of a module by the rPrograms of the plan that ``change`` returns.

    ``change`` is called with the module's plan.

    Raises:
        PassError: if there is no rProgram, or runs of an operator differ in rKernel or buffers.
    """
    scheduled = read_plan(module)
    plan = change(scheduled.plan)
    programs = program_operations(module)
    ip = ir.InsertionPoint(programs[0])
    write_plan(plan, dict(enumerate(scheduled.calls)), scheduled.device, ip)
    for op in programs:
        op.operation.erase()


def record_predictions(module: ir.Module, plan: Plan) -> None:
    """Store a plan's predictions and notes as attributes of the entry function.

    The attributes are the predicted seconds of a run, the number of waits before barrier
    elimination, and the policy's messages.
    """
    attributes = entry_function(module).operation.attributes
    i64 = ir.IntegerType.get_signless(64)
    attributes[_REQUESTED] = ir.IntegerAttr.get(i64, plan.requested_waits)
    attributes[_SECONDS] = ir.FloatAttr.get(ir.F64Type.get(), plan.predicted_seconds)
    if _NOTES in attributes:
        del attributes[_NOTES]
    if plan.notes:
        attributes[_NOTES] = ir.ArrayAttr.get([ir.StringAttr.get(note) for note in plan.notes])


def _predictions(module: ir.Module) -> tuple[float, int]:
    attributes = entry_function(module).operation.attributes
    if _REQUESTED not in attributes or _SECONDS not in attributes:
        return 0.0, 0
    seconds = ir.FloatAttr(attributes[_SECONDS]).value
    return seconds, ir.IntegerAttr(attributes[_REQUESTED]).value


def _notes(module: ir.Module) -> tuple[str, ...]:
    attributes = entry_function(module).operation.attributes
    if _NOTES not in attributes:
        return ()
    return tuple(ir.StringAttr(note).value for note in ir.ArrayAttr(attributes[_NOTES]))


def read_plan(module: ir.Module) -> ScheduledModule:
    """Return the schedule of a module's rPrograms, with its task graph and rKernel calls.

    Raises:
        PassError: if the module has no rProgram, or runs of an operator differ in rKernel or
            buffers.
    """
    programs = program_operations(module)
    if not programs:
        raise PassError("expected at least one rtask.program, found none: run rtask-schedule first")
    reader = _Reader(module)
    parsed = [reader.program(op) for op in programs]
    return reader.finish(
        parsed, str(ir.StringAttr(programs[0].operation.attributes["device"]).value)
    )


class _Reader:
    def __init__(self, module: ir.Module) -> None:
        self._module = module
        self._builder = GraphBuilder(module)
        self._calls: dict[int, OperatorCall] = {}

    def program(self, op: ir.OpView) -> list[list[Run | Barrier]]:
        veus = op.operation.regions[0].blocks[0].operations
        return [
            [self._item(item.operation) for item in veu.operation.regions[0].blocks[0].operations]
            for veu in veus
        ]

    def _item(self, op: ir.Operation) -> Run | Barrier:
        attributes = op.attributes
        if op.name == "rtask.barrier":
            flat = list(ir.DenseI64ArrayAttr(attributes["waits"]))
            return Barrier(tuple(zip(flat[::2], flat[1::2], strict=True)))
        number, first, count = (
            ir.IntegerAttr(attributes[key]).value for key in ("operator_id", "first", "count")
        )
        kernel = ir.FlatSymbolRefAttr(attributes["kernel"]).value
        operands = list(op.operands)
        known = self._calls.setdefault(number, OperatorCall(kernel, operands, op.location))
        if known.kernel != kernel or list(known.operands) != operands:
            raise PassError(
                f"operator {number} runs '@{kernel}' here and '@{known.kernel}' elsewhere, or on "
                "other buffers: expected one rKernel and the same buffers in all its runs"
            )
        return Run(operator=number, first=first, count=count)

    def finish(self, programs: list[list[list[Run | Barrier]]], device: str) -> ScheduledModule:
        order = sorted(self._calls)
        index = {number: position for position, number in enumerate(order)}
        for number in order:
            call = self._calls[number]
            name = operator_name(call.location, call.kernel)
            self._builder.add_operator(name, [call.kernel], call.operands)
        self._builder.add_outputs()
        seconds, requested = _predictions(self._module)
        plan = Plan(
            programs=tuple(
                RProgram(len(veus), tuple(tuple(_renumber(i, index) for i in veu) for veu in veus))
                for veus in programs
            ),
            kernels=(0,) * len(order),
            predicted_seconds=seconds,
            requested_waits=requested,
            notes=_notes(self._module),
        )
        calls = tuple(self._calls[number] for number in order)
        return ScheduledModule(self._builder, plan, calls, device)


def _renumber(item: Run | Barrier, index: Mapping[int, int]) -> Run | Barrier:
    if isinstance(item, Barrier):
        return item
    return Run(operator=index[item.operator], first=item.first, count=item.count)
