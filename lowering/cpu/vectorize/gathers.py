"""Decides whether the lanes of a register can run along a loop if a body gathers elements.

A body may read elements of captured buffers at indices that it computes, as ``Gather`` and
``RoiAlign`` do. If each iteration of a loop increases only the last index, and increases it by one,
the lanes of a register along this loop read contiguous memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.cpu.vectorize.body import LOAD, Body, Instruction

_LOADABLE_BITS = (8, 16, 32, 64)
"""Widths in bits of the elements that vectors can load.

Booleans are left out: they are bytes in memory, but single bits in vectors.
"""


def varying_slots(body: Body, loop: int, arguments: Iterable[int]) -> set[int] | None:
    """Return which values of a body differ between the lanes of a register along a loop.

    A slot is the index of a value in ``body``.

    Args:
        body: the body.
        loop: the dimension along the lanes.
        arguments: slots of the body's arguments that vary along the loop.

    Returns:
        The slots of the values. None if the lanes of a gather have different indices but do not
        read contiguous memory.
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
    """Return whether a gather reads adjacent elements of memory in successive iterations of a loop.

    That is the case if only the gather's last index varies along the loop and increases by 1.
    A slot is the index of a value in the body. ``moving`` has the slots of the operands of ``load``
    that vary along the loop, ``rising`` the slots of all values that increase by 1 per iteration.
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
