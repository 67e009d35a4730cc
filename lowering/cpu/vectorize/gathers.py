"""Decides whether the lanes of a register can run along a loop if a body gathers elements.

A body may read elements of captured buffers at indices that it computes, as ``Gather`` and
``RoiAlign`` do. If only the last index moves along a loop, by one element per iteration, the lanes
of a register along this loop read contiguous memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.cpu.vectorize.body import LOAD, Body, Instruction

_LOADABLE_BITS = (8, 16, 32, 64)
"""Widths of the elements that vectors load from memory; booleans are bytes in it, but not there."""


def varying_slots(body: Body, loop: int, arguments: Iterable[int]) -> set[int] | None:
    """Return the slots of the values that differ between the lanes of a register along a loop.

    Args:
        body: the body.
        loop: the dimension along the lanes.
        arguments: slots of the body's arguments that vary along the loop.

    Returns:
        The slots; None if a gather along the lanes neither has the same index in all lanes nor
        reads contiguous memory.
    """
    # Values that increase by 1 from lane to lane: the loop's index, plus the offset of a tile.
    rising = {slot for slot, dimension in body.indices if dimension == loop}
    varying = {*arguments, *rising}
    for instruction in body.instructions:
        moving = [slot for slot in instruction.operands if slot in varying]
        if not moving:
            continue
        if instruction.name == LOAD and not _reads_contiguously(instruction, moving, rising):
            return None
        if instruction.name in ("arith.index_cast", "arith.addi") and _is_one_of(moving, rising):
            rising.update(instruction.results)
        varying.update(instruction.results)
    return varying


def _is_one_of(moving: Sequence[int], rising: set[int]) -> bool:
    return len(moving) == 1 and moving[0] in rising


def _reads_contiguously(load: Instruction, moving: Sequence[int], rising: set[int]) -> bool:
    """Whether only the last index of a gather moves, by one element of memory per iteration.

    ``moving`` has the slots of the operands that vary along the loop, and ``rising`` the slots of
    the values that increase by 1 per iteration.
    """
    kind = ir.MemRefType(load.operation.operands[0].type)
    strides, _ = kind.get_strides_and_offset()
    return (
        _is_one_of(moving, rising)
        and moving[0] == load.operands[-1]
        and strides[-1] == 1
        and isinstance(kind.element_type, ir.FloatType | ir.IntegerType)
        and kind.element_type.width in _LOADABLE_BITS
    )
