"""An artifact as flat arrays, and rule 6; every number of the file is taken as hostile."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.checker.members import Members
from rammer_mlir.errors import ArtifactError, ScheduleError

Array = NDArray[np.int64]
Mask = NDArray[np.bool_]

BASES = ("input", "output", "constant", "arena")
KINDS = ("input", "output", "constant", "intermediate", "inout")
INPUT, OUTPUT, CONSTANT, ARENA, INOUT = range(5)
"""Numbers of bases and kinds: an intermediate is in the arena, an inout in an input's buffer."""

EFFECTS = ("reads", "writes", "updates")

LARGEST, MOST, _MOST_VEUS = 1 << 48, 1 << 23, 1 << 12
"""Limits of a number, of a list's entries and of vEUs; the largest programs have some 10**6
entries and 304 vEUs. Sums of some large numbers stay far below 64 bits."""


def refuse(wrong: Mask, message: Callable[[int], str]) -> None:
    """Refuse an artifact for the first entry that is wrong."""
    for at in np.flatnonzero(wrong)[:1].tolist():
        raise ScheduleError(message(at))


def require_few(found: float, what: str, most: int = MOST) -> None:
    """Refuse an artifact whose proof would take too much time or memory."""
    if found > most:
        raise ScheduleError(f"{what}: expected at most {most}, found {found:.0f}; tile coarser")


def integers(values: Iterable[Any], what: str, end: int = LARGEST, low: int = 0) -> Array:
    """Return whole numbers from ``low`` to ``end - 1``."""
    found = list(values)
    if set(map(type, found)) - {int} or (found and not low <= min(found) <= max(found) < end):
        raise ArtifactError(f"{what}: expected whole numbers from {low} to {end - 1}")
    return np.array(found, np.int64)


def rows_of(rows: Sequence[Sequence[Any]], width: int, what: str, low: int = 0) -> Array:
    """Return rows of so many whole numbers."""
    if set(map(len, rows)) - {width}:
        raise ArtifactError(f"{what}: expected {width} numbers for each")
    return integers(chain.from_iterable(rows), what, low=low).reshape(-1, width)


def starts(counts: Array | list[int]) -> Array:
    """Return where each of some consecutive lists begins, and the end of the last."""
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)))


def entries(counts: Array) -> tuple[Array, Array]:
    """Return each entry of lists of these lengths: number of its list, place in the list."""
    require_few(float(counts.sum(dtype=float)), "entries of a list")
    owner = np.repeat(np.arange(len(counts)), counts)
    return owner, np.arange(len(owner)) - starts(counts)[owner]


def _places(rows: Sequence[Any], sizes: Sequence[Array]) -> Array:
    """Read ``[base, index, offset]``, pointers into buffers of these sizes."""
    numbers = [(BASES.index(base), index, offset) for base, index, offset in rows]
    found = rows_of(numbers, 3, "pointers", 1 - LARGEST)
    if ((found[:, 1] < 0) | (found[:, 1] >= np.array([*map(len, sizes)])[found[:, 0]])).any():
        raise ArtifactError("pointers: expected buffers of the manifest")
    return found


@dataclass(frozen=True, eq=False)
class Boxes:
    """A box of bytes for each of some rTasks; none is empty, no stride is negative."""

    task: Array
    offsets: Array
    sizes: Array  # [boxes, rank]
    strides: Array
    element_bytes: int

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """Return the first byte and the end of the last."""
        ends = self.offsets + ((self.sizes - 1) * self.strides).sum(axis=1) + self.element_bytes
        return int(self.offsets.min(initial=LARGEST)), int(ends.max(initial=-LARGEST))

    @cached_property
    def runs(self) -> Array:
        """Return consecutive bytes, ascending: rTask, begin, end, largest end so far."""
        box, begin = np.arange(len(self.task)), self.offsets
        length = np.full(len(box), self.element_bytes)
        for dim in np.argsort(self.strides).tolist():
            stride, size = self.strides[dim], self.sizes[box, dim]
            dense = stride <= length  # the dimension lengthens a run, else it repeats it
            length = np.where(dense, length + stride * (size - 1), length)
            run, number = entries(np.where(dense, 1, size))
            box, begin, length = box[run], begin[run] + number * stride, length[run]
        order = np.argsort(begin, kind="stable")
        begin, end = begin[order], (begin + length)[order]
        return np.stack((self.task[box[order]], begin, end, np.maximum.accumulate(end)))


@dataclass(frozen=True, eq=False)
class Table:
    """The words that code executes in a launch."""

    words: list[int]
    arguments: list[int]
    starts: list[int]  # of each vEU
    totals: list[int]  # steps of each vEU


def _words(members: Members, name: str, kind: str) -> Array:
    """Return little-endian numbers; those that are too large for any use as the largest."""
    found = np.frombuffer(members.read(f"{name}.bin"), kind).astype(np.int64)
    return np.clip(found, -LARGEST, LARGEST)


def _tensors(tensors: Sequence[Any]) -> Array:
    """Return the bytes of inputs or outputs."""
    require_few(len(tensors), "inputs and outputs", 1 << 16)
    shapes = [integers(tensor["shape"], "shape").tolist() for tensor in tensors]
    sizes = zip(shapes, (_item_bytes(tensor["dtype"]) for tensor in tensors), strict=True)
    return integers((prod(shape) * width for shape, width in sizes), "bytes of tensors")


def _item_bytes(name: str) -> int:
    """Return an element's size; those that NumPy does not know are of ml_dtypes."""
    try:
        return np.dtype(name).itemsize
    except TypeError:
        return 2 if name == "bfloat16" else 1


def _boxes(tasks: int, single: Sequence[int], strides: Sequence[int], words: Array) -> Boxes:
    element_bytes, first, second = single
    rank, steps = len(strides), np.array(strides, np.int64)
    sizes = words[second : second + tasks * rank].reshape(tasks, rank)
    task = np.flatnonzero((sizes > 0).all(axis=1))
    sizes, offsets = sizes[task], words[first : first + tasks][task]
    largest = sizes.max(axis=0, initial=0).tolist()
    span = sum(n * abs(s) for n, s in zip(largest, strides, strict=True)) + element_bytes
    if not 1 <= element_bytes <= span <= LARGEST:
        raise ArtifactError(f"boxes.bin: expected boxes of 1 to {LARGEST} bytes at {first}")
    offsets = offsets + (np.minimum(steps, 0) * (sizes - 1)).sum(axis=1)
    return Boxes(task, offsets, sizes, abs(steps), element_bytes)


class Artifact:
    """What the manifest, ``program.json``, ``proof.json`` and the tables say of a program."""

    def __init__(self, members: Members) -> None:
        """Read a program; check that its members name the same rKernels, buffers and pointers."""
        manifest = members.manifest
        program, proof = (json.loads(members.read(f"{name}.json")) for name in ("program", "proof"))
        self.is_cpu = manifest["code"] == "so"  # what the loader, too, decides by
        arena = manifest["arena_bytes"] if self.is_cpu else dict(manifest["arguments"])["arena"]
        self.parts = starts(list(members.parts))  # where each part of the constants begins
        single = [int(self.parts[-1])], [arena]
        self.sizes = [_tensors(manifest["inputs"]), _tensors(manifest["outputs"])]  # of buffers
        self.sizes += [integers(found, "buffers") for found in single]
        self._read_values(proof["values"])
        self._read_operators(program, proof)
        self._read_accesses(proof["kernels"], _words(members, "boxes", "<i8"))
        self._read_tables(members)

    def _read_values(self, values: Sequence[Any]) -> None:
        self.values = [str(name)[:80] for name, _, _, _ in values]
        self.kind = np.array([KINDS.index(value[1]) for value in values], np.int64)
        self.places = _places([value[2] for value in values], self.sizes)  # base, index, offset
        self.num_bytes = integers((value[3] for value in values), "bytes of values")

    def _read_operators(self, program: dict[str, Any], proof: dict[str, Any]) -> None:
        """Read rOperators; those between ``first[o]`` and ``first[o + 1]`` are its arguments."""
        operators, slots = program["operators"], _places(program["slots"], self.sizes)
        self._arity = integers((buffers for _, buffers in program["kernels"]), "buffers")
        self.names = [str(name)[:80] for name, _, _ in operators]
        self.kernels = integers((o[1] for o in operators), "rKernels", len(self._arity))
        self.first = starts([len(o[2]) for o in operators])
        numbers = integers(chain.from_iterable(o[2] for o in operators), "slots", len(slots))
        operands = [operand for o in proof["operators"] for operand in o[1]]
        self.value, byte = rows_of(operands, 2, "values of rOperators", 1 - LARGEST).T
        integers(self.value.tolist(), "values of rOperators", len(self.values))
        arity = self._arity[self.kernels].tolist()
        same = [o[0] for o in proof["operators"]] == self.kernels.tolist()
        same &= [len(o[1]) for o in proof["operators"]] == arity == np.diff(self.first).tolist()
        if not same or len(proof["kernels"]) != len(self._arity):
            raise ScheduleError("rule 6 (encoded): expected rKernels as in proof.json")
        self.pointers, self.byte = slots[numbers], byte  # base, index, offset
        wanted = self.places[self.value] + np.outer(byte, (0, 0, 1))
        refuse((self.pointers != wanted).any(axis=1), lambda at: (
            f"rule 6 (encoded): argument {at}: expected a pointer to byte {byte[at]} of "
            f"{self.values[self.value[at]]}, found slot {numbers[at]} elsewhere"
        ))  # fmt: skip
        self.launches: list[list[list[Any]]] = program["launches"]

    def _read_accesses(self, kernels: Sequence[Any], words: Array) -> None:
        """Read accesses: rKernel, argument, number of the list, boxes; equal boxes only once."""
        self.num_rtasks = integers((kernel[0] for kernel in kernels), "rTasks", MOST)
        known, rows = dict[tuple[int, ...], int](), list[tuple[int, ...]]()
        self.boxes = list[Boxes]()
        if (abs(words) >= LARGEST).any():
            raise ArtifactError(f"boxes.bin: expected numbers below {LARGEST}")
        for kernel, (tasks, *lists) in enumerate(kernels):
            if len(lists) != len(EFFECTS):
                raise ArtifactError(f"proof.json: expected accesses by each of {EFFECTS}")
            accesses = ((effect, access) for effect in range(3) for access in lists[effect])
            for effect, (argument, *row, strides) in accesses:
                integers((*row, *map(abs, strides)), "accesses")
                integers([argument], "arguments of accesses", int(self._arity[kernel]))
                key = (tasks, *row, *strides)
                if key not in known:
                    known[key] = len(self.boxes)
                    self.boxes.append(_boxes(tasks, row, strides, words))
                rows.append((kernel, argument, effect, known[key]))
        require_few(len(self.boxes), "accesses of rKernels", 1 << 16)
        self.accesses = rows_of(rows, 4, "accesses")

    def _read_tables(self, members: Members) -> None:
        """Read the table of each launch."""
        launches, veus = len(self.launches), len(self.launches[0])
        if {*map(len, self.launches)} != {veus} or not 1 <= veus <= _MOST_VEUS:
            raise ArtifactError(f"launches: expected each of the same 1 to {_MOST_VEUS} vEUs")
        if self.is_cpu:
            names = {"records": "<i4", "arguments": "<i4", "starts": "<i4", "totals": "<i8"}
            rows = [[_words(members, name, kind).tolist() for name, kind in names.items()]]
        else:
            words = _words(members, "tables", "<i8").reshape(launches, -1).tolist()
            rows = [[row, row, row[:veus], row[veus : 2 * veus]] for row in words]
        self.tables = [Table(*row) for row in rows]

    def words(self) -> list[list[int]]:
        """Return the words that the arguments of each rOperator have in the table."""
        base, index, offset = self.pointers.T
        if self.is_cpu:
            known: dict[tuple[int, ...], int] = {}
            slots = map(tuple, self.pointers.tolist())
            width, words = 1, [known.setdefault(slot, len(known)) for slot in slots]
        else:
            buffer = starts([*map(len, self.sizes)])[base] + index
            width, words = 2, np.stack((buffer, offset), axis=1).ravel().tolist()
        return [words[a:b] for a, b in pairwise((width * self.first).tolist())]
