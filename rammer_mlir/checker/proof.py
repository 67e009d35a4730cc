"""``proof.json`` and ``boxes.bin``: values, and what each rKernel touches of its buffers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rammer_mlir.checker.archive import (
    LARGEST,
    Archive,
    Int64Array,
    integers,
    ranges,
    require_few,
    starts,
)  # fmt: skip
from rammer_mlir.checker.boxes import Pieces, pieces_of
from rammer_mlir.checker.program import MOST_TASKS, Lists, Places, Program
from rammer_mlir.errors import ArtifactError, ScheduleError

KINDS = ("input", "inout", "output", "constant", "intermediate")
INPUT, INOUT, OUTPUT, CONSTANT, INTERMEDIATE = range(5)

_BASE_OF_KIND = np.array([0, 0, 1, 2, 3])
"""Where values of each kind are: numbers of ``BASES``."""

READ, WRITE, UPDATE = range(3)

_MOST_USES, _MOST_ACCESSES = 1 << 20, 1 << 16
"""Those of the largest benchmark models are 20,000 and 500."""


@dataclass(frozen=True, eq=False)
class Access:
    """What all rTasks of an rKernel touch of one buffer.

    Attributes:
        effect: READ, WRITE or UPDATE.
        pieces: the bytes, from the rKernel's pointer.
    """

    argument: int
    effect: int
    pieces: Pieces


@dataclass(frozen=True, eq=False)
class Values:
    """Tensors: names, numbers of ``KINDS``, places and sizes in bytes."""

    names: Sequence[str]
    kind: Int64Array
    place: Places
    num_bytes: Int64Array


@dataclass(frozen=True, eq=False)
class Uses:
    """Each access of each rOperator that has bytes, in the sequential order.

    Attributes:
        operator, access, value: numbers, one for each use.
        effect: of the access.
        shift: bytes from the value's begin to the rKernel's pointer.
        low, high: first byte of the value that is touched, and the end of the last.
        volume: bytes of all pieces of the access.
    """

    operator: Int64Array
    access: Int64Array
    value: Int64Array
    effect: Int64Array
    shift: Int64Array
    low: Int64Array
    high: Int64Array
    volume: Int64Array


@dataclass(frozen=True, eq=False)
class Proof:
    """Values, rTasks and accesses of each rKernel; for rOperators' buffers, values and offsets."""

    values: Values
    num_rtasks: Int64Array
    accesses: Sequence[Sequence[Access]]
    operands: Lists
    shifts: Int64Array


def read_proof(archive: Archive, program: Program, buffers: Sequence[int]) -> Proof:
    """Read the proof, with so many buffers of each base."""
    found, boxes = archive.json("proof.json"), archive.words("boxes.bin", "<i8")
    if ((boxes > LARGEST) | (boxes < -LARGEST)).any():
        raise ArtifactError(f"boxes.bin: expected numbers up to {LARGEST}")
    values = _values(found["values"], buffers)
    num_rtasks = integers([kernel[0] for kernel in found["kernels"]], "rTasks", MOST_TASKS)
    operators = found["operators"]
    given = [[value for value, _ in operands] for _, operands in operators]
    operands = Lists.of(given, "operators: value", len(values.names))
    offsets = [offset for _, operands in operators for _, offset in operands]
    integers(map(abs, offsets), "operators: offset")
    kernels = integers([kernel for kernel, _ in operators], "operators: kernel", len(num_rtasks))
    arity = program.arity.tolist()
    if len(num_rtasks) != len(arity) or len(operands.counts) != len(program.names):
        raise ArtifactError("proof.json: expected the rKernels and rOperators of program.json")
    if (operands.counts != program.operands.counts).any():
        raise ArtifactError("proof.json: expected a value for each buffer of an rOperator")
    for wrong in np.flatnonzero(kernels != program.kernels)[:1].tolist():
        raise ScheduleError(
            f"rule 6 (encoded): {program.names[wrong]}: expected rKernel {kernels[wrong]}, as "
            f"proof.json says, found {program.kernels[wrong]}"
        )
    known: dict[tuple[Any, ...], Pieces] = {}
    accesses = [
        [
            _access(access, effect, kernel[0], arity[number], boxes, known)
            for effect, kind in enumerate(kernel[1:])
            for access in kind
        ]
        for number, kernel in enumerate(found["kernels"])
    ]
    shifts = np.array(offsets, np.int64)
    _check_slots(program, values, operands.numbers, shifts)
    return Proof(values, num_rtasks, accesses, operands, shifts)


def _check_slots(program: Program, values: Values, value: Int64Array, shift: Int64Array) -> None:
    """Check that each pointer is where the proof says that it is in a value."""
    slots, places, slot = program.slots, values.place, program.operands.numbers
    wrong = slots.offset[slot] != places.offset[value] + shift
    wrong |= slots.base[slot] != places.base[value]
    wrong |= slots.index[slot] != places.index[value]
    for at in np.flatnonzero(wrong)[:1].tolist():
        operator = int(np.searchsorted(program.operands.first, at, side="right")) - 1
        raise ScheduleError(
            f"rule 6 (encoded): {program.names[operator]}: expected a pointer to byte {shift[at]} "
            f"of {values.names[int(value[at])]}, found slot {slot[at]} of program.json elsewhere"
        )


def _values(rows: Sequence[Sequence[Any]], buffers: Sequence[int]) -> Values:
    names, kinds, places, sizes = zip(*rows, strict=True) if rows else ((), (), (), ())
    kind = np.array([KINDS.index(name) for name in kinds], dtype=np.int64)
    place = Places.of(places, buffers, "values")
    wrong = np.flatnonzero((place.base != _BASE_OF_KIND[kind]) | (place.offset < 0))
    for at in wrong[:1].tolist():
        raise ScheduleError(
            f"rule 5 (memory): {kinds[at]} {names[at]} is at {rows[at][2]}: expected the arena for "
            "intermediates, else a buffer of its kind"
        )
    return Values([str(n)[:80] for n in names], kind, place, integers(sizes, "values: bytes"))


def _access(
    row: Sequence[Any],
    effect: int,
    num_rtasks: int,
    arity: int,
    boxes: Int64Array,
    known: dict[tuple[Any, ...], Pieces],
) -> Access:
    argument, element_bytes, offsets, sizes, strides = row
    key = (num_rtasks, element_bytes, offsets, sizes, *strides)
    integers((element_bytes, *key[2:4], *map(abs, strides)), "accesses")
    integers([argument], "accesses: argument", arity)
    if key not in known:
        rank = len(strides)
        if max(offsets + num_rtasks, sizes + num_rtasks * rank) > len(boxes) or effect > UPDATE:
            raise ArtifactError(f"boxes.bin: expected boxes of {num_rtasks} rTasks at {row}")
        size = boxes[sizes : sizes + num_rtasks * rank].reshape(num_rtasks, rank)
        span = sum(n * abs(s) for n, s in zip(_largest(size), strides, strict=True))
        if span + element_bytes > LARGEST or element_bytes < 1:
            raise ArtifactError(f"proof.json: expected boxes below {LARGEST} bytes at {row}")
        box_offsets = boxes[offsets : offsets + num_rtasks]
        require_few(len(known), _MOST_ACCESSES, "accesses of rKernels")
        known[key] = pieces_of(box_offsets, size, list(strides), element_bytes)
    return Access(argument, effect, known[key])


def _largest(sizes: Int64Array) -> list[int]:
    return sizes.max(axis=0, initial=0).tolist()


def uses_of(program: Program, proof: Proof) -> Uses:
    """List who touches what, and check rule 5 for each access by itself."""
    counts = np.array([len(accesses) for accesses in proof.accesses], np.int64)
    flat = [access for accesses in proof.accesses for access in accesses]
    bounds = np.array([_bounds(access) for access in flat], np.int64).reshape(-1, 5)
    kernels = program.kernels
    require_few(float(counts[kernels].sum(dtype=float)), _MOST_USES, "accesses of rOperators")
    operator, access = ranges(starts(counts)[kernels], counts[kernels])
    touched = bounds[access, 4] > 0
    operator, access = operator[touched], access[touched]
    argument, effect, low, high, volume = bounds[access].T
    at = program.operands.first[operator] + argument
    value, shift = proof.operands.numbers[at], proof.shifts[at]
    uses = Uses(operator, access, value, effect, shift, low + shift, high + shift, volume)
    _check_inside(program, proof.values, uses)
    return uses


def _bounds(access: Access) -> tuple[int, ...]:
    pieces = access.pieces
    low, high = pieces.offset.min(initial=LARGEST), pieces.ends.max(initial=-LARGEST)
    return access.argument, access.effect, low, high, pieces.volume.sum()


def _check_inside(program: Program, values: Values, uses: Uses) -> None:
    outside = (uses.low < 0) | (uses.high > values.num_bytes[uses.value])
    fixed = (values.kind == INPUT) | (values.kind == CONSTANT)
    changed = (uses.effect != READ) & fixed[uses.value]
    for wrong, found, expected in (
        (outside, "touches bytes {low} to {high} of", "bytes from 0 to {last}"),
        (changed, "writes", "only reads"),
    ):
        for use in np.flatnonzero(wrong)[:1].tolist():
            value = int(uses.value[use])
            numbers = {"low": uses.low[use], "high": uses.high[use] - 1}
            kind = KINDS[int(values.kind[value])]
            raise ScheduleError(
                f"rule 5 (memory): {program.names[int(uses.operator[use])]} "
                f"{found.format(**numbers)} {kind} {values.names[value]}: expected "
                f"{expected.format(last=values.num_bytes[value] - 1)}"
            )
