"""`rtask-plan-memory`: places intermediates in a shared arena according to their liveness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import arith, ir, memref
from rammer_mlir.errors import PassError
from rammer_mlir.passes.base import Pass
from rammer_mlir.passes.ir.constants import ArgumentList, argument_attributes
from rammer_mlir.passes.ir.entry import entry_block, entry_function
from rammer_mlir.passes.program.program_ir import read_plan
from rammer_mlir.scheduling.memory import MemorySizes, plan_memory

ARENA = "rtask.arena"
SUM_BYTES = "rtask.intermediate_bytes"
LIVE_BYTES = "rtask.live_bytes"

_OFFSET = "rtask.offset"
"""Attribute of a ``memref.alloc``: the proposed byte offset of the buffer in the arena."""


@dataclass(frozen=True)
class PlanMemory(Pass):
    """Place intermediates in an arena; their live ranges follow from the schedule's partial order.

    Two intermediates share bytes only if every use of the first happens before every use of the
    second.
    """

    name: ClassVar[str] = "rtask-plan-memory"

    def run(self, module: ir.Module) -> None:
        """Replace every ``memref.alloc`` of the entry function by a view of an arena argument."""
        scheduled = read_plan(module)
        graph = scheduled.builder.graph()
        memory = plan_memory(graph, scheduled.plan, _proposed(scheduled.builder.roots))
        roots = {root: number for number, root in enumerate(scheduled.builder.roots)}
        allocs = [op for op in entry_block(module).operations if _is_alloc(op)]
        arena_type = ir.MemRefType.get([memory.sizes.arena_bytes], ir.IntegerType.get_signless(8))
        marks = {
            ARENA: ir.UnitAttr.get(),
            SUM_BYTES: _integer(memory.sizes.sum_bytes),
            LIVE_BYTES: _integer(memory.sizes.live_bytes),
        }
        arguments = ArgumentList(entry_function(module))
        arena = arguments.add(arena_type, marks)
        arguments.finish()
        for op in allocs:
            result = op.operation.results[0]
            if result in roots:
                with ir.InsertionPoint(op), op.operation.location:
                    start = arith.ConstantOp(ir.IndexType.get(), memory.offsets[roots[result]])
                    view = memref.ViewOp(result.type, arena, start.result, [])
                result.replace_all_uses_with(view.result)
            _erase_with_views(op.operation)


def propose_offsets(roots: Sequence[ir.Value], offsets: Mapping[int, int]) -> None:
    """Propose the offsets of buffers in the arena to the pass `rtask-plan-memory`.

    Each offset, in bytes, becomes an attribute of the buffer's ``memref.alloc``. ``roots`` lists
    buffers. ``offsets`` maps indices of buffers in ``roots`` to offsets; buffers whose index is not
    in ``offsets`` get no proposal.
    """
    for number, offset in offsets.items():
        owner = roots[number].owner
        assert not isinstance(owner, ir.Block), "an intermediate is no argument"
        owner.operation.attributes[_OFFSET] = _integer(offset)


def _proposed(roots: Sequence[ir.Value]) -> dict[int, int]:
    attributes = {
        number: root.owner.operation.attributes
        for number, root in enumerate(roots)
        if not isinstance(root.owner, ir.Block)
    }
    return {
        number: ir.IntegerAttr(found[_OFFSET]).value
        for number, found in attributes.items()
        if _OFFSET in found
    }


def _erase_with_views(op: ir.Operation) -> None:
    """Erase a buffer's ``memref.alloc`` and all views of the buffer.

    The function calls itself for each user of the result of ``op``; the users may only be views,
    whose users are only views too.
    """
    for result in op.results:
        for use in list(result.uses):
            _erase_with_views(use.owner.operation)
    op.erase()


def memory_sizes(main: ir.OpView) -> MemorySizes:
    """Return the planned memory sizes of an entry function, in bytes; zeros if it has no arena."""
    arguments = main.operation.regions[0].blocks[0].arguments
    for number, marks in enumerate(argument_attributes(main)):
        if ARENA in marks:
            arena_bytes = ir.MemRefType(arguments[number].type).shape[0]
            others = (
                ir.IntegerAttr(marks[key]).value if key in marks else 0
                for key in (SUM_BYTES, LIVE_BYTES)
            )
            return MemorySizes(arena_bytes, *others)
    return MemorySizes(0, 0, 0)


def _integer(value: int) -> ir.IntegerAttr:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)


def _is_alloc(op: ir.OpView) -> bool:
    return op.operation.name == "memref.alloc"


def arena_offsets(roots: Sequence[ir.Value]) -> dict[int, int] | None:
    """Return the byte offset in the arena of each buffer that lies in the arena.

    The keys of the result are the indices of these buffers in ``roots``, a list of buffers. Return
    None if none of them lies in the arena, for example because memory is not yet planned.
    """
    offsets: dict[int, int] = {}
    for number, root in enumerate(roots):
        if not isinstance(root.owner, ir.Block) and root.owner.operation.name == "memref.view":
            offsets[number] = view_start(root.owner.opview)
    return offsets or None


def view_start(view: ir.OpView) -> int:
    """Return the byte offset of a ``memref.view`` in the arena.

    Raises:
        PassError: if the offset is not a constant.
    """
    owner = view.operation.operands[1].owner
    if isinstance(owner, ir.Block) or owner.operation.name != "arith.constant":
        raise PassError("a memref.view of the arena has an offset that is not a constant")
    return ir.IntegerAttr(owner.operation.attributes["value"]).value
