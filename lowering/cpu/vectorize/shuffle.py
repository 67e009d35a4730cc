"""Emits shuffles between registers: extraction of strided elements, and small transposes."""

from __future__ import annotations

from rammer_mlir.bindings import ir, vector


def pick_strided(parts: list[ir.Value], stride: int, lanes: int) -> ir.Value:
    """Emit a register with elements 0, ``stride``, ``2 * stride``, ... of consecutive registers.

    ``parts`` are ``stride`` consecutive registers of ``lanes`` elements each.
    """
    result = parts[0]
    for number in range(1, stride):
        first = number * lanes  # the element in lane 0 of this part
        picked: list[int] = []
        for lane in range(lanes):
            element = lane * stride
            if element >= first + lanes:
                picked.append(0)  # a later part fills this lane
            elif element >= first:
                picked.append(lanes + element - first)
            else:
                picked.append(element if number == 1 else lane)
        result = vector.shuffle(result, parts[number], picked)
    return result


def transpose(rows: list[ir.Value], lanes: int) -> list[ir.Value]:
    """Emit the transposes of the square blocks of ``rows``, and replace ``rows`` by the results.

    There are n = len(rows) rows, a power of two that divides ``lanes``. Lane ``b * n + i`` of
    result ``j`` is lane ``b * n + j`` of row ``i``.
    """
    size = 1
    while size < len(rows):
        for first in range(len(rows)):
            if not first & size:
                low, high = rows[first], rows[first + size]
                rows[first], rows[first + size] = _swap_halves(low, high, size, lanes)
        size *= 2
    return rows


def _swap_halves(low: ir.Value, high: ir.Value, size: int, lanes: int) -> tuple[ir.Value, ir.Value]:
    """Emit an exchange of half of the lanes of two registers; return both new registers.

    ``size`` is a power of two. Each lane of ``low`` whose index has the bit ``size`` is exchanged
    with the lane of ``high`` whose index is less by ``size``.
    """
    new_low = [lanes + lane - size if lane & size else lane for lane in range(lanes)]
    new_high = [lanes + lane if lane & size else lane + size for lane in range(lanes)]
    return vector.shuffle(low, high, new_low), vector.shuffle(low, high, new_high)


def joined(parts: list[ir.Value]) -> ir.Value:
    """Emit the concatenation of registers of equal size.

    The count of registers must be a power of two.
    """
    while len(parts) > 1:
        lanes = list(range(2 * ir.VectorType(parts[0].type).shape[0]))
        parts = [vector.shuffle(*parts[i : i + 2], lanes) for i in range(0, len(parts), 2)]
    return parts[0]


def interleave(registers: list[ir.Value], lanes: int) -> list[ir.Value]:
    """Emit the interleaving of registers: lane 0 of every register, then lane 1 of every register.

    Returns ``len(registers)`` registers of ``lanes`` lanes, which hold the interleaved sequence.
    """
    count = len(registers)
    results: list[ir.Value] = []
    for first in range(0, count * lanes, lanes):
        result = registers[0]
        for number in range(1, count):
            picked: list[int] = []
            for lane, element in enumerate(range(first, first + lanes)):
                source, place = element % count, element // count
                if source == number:
                    picked.append(lanes + place)
                else:
                    picked.append(place if number == 1 and source == 0 else lane)
            result = vector.shuffle(result, registers[number], picked)
        results.append(result)
    return results


def segment(register: ir.Value, number: int, size: int) -> ir.Value:
    """Emit the extraction of ``size`` lanes of a register, from lane ``number * size`` on."""
    picked = list(range(number * size, (number + 1) * size))
    return vector.shuffle(register, register, picked)
