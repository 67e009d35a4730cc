"""Matrix instructions of a warp (PTX ISA: Warp Level Matrix Instructions).

A fragment is the part of a matrix that a lane has, as the ISA's figures for each shape show it. The
``row`` and ``column`` of an element follow from the lane's group (lane / 4), its place in the group
(lane % 4), and the element's index.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .active import Active
from .addresses import addresses_of
from .arrays import Array, Integers
from .conversions import pieces
from .faults import PtxFault
from .kinds import DTYPES
from .memory import Refused, Words
from .module import Instruction
from .steps import Decode, Machine, Step
from .warps import WARP

_LANE = np.arange(WARP)[:, None]
_GROUP, _PLACE = _LANE // 4, _LANE % 4


@dataclass(frozen=True)
class Fragment:
    """For each lane of a warp, the rows and columns of the matrix elements that the lane holds.

    Attributes:
        rows, columns: row and column of each element, as arrays [32, elements].
        shape: shape of the matrix.
    """

    rows: Integers
    columns: Integers
    shape: tuple[int, int]

    def gather(self, elements: Array) -> Array:
        """Return the matrix of each warp, as an array [warps, rows, columns].

        ``elements`` has the elements that the lanes hold, as an array [warps, 32, elements].
        """
        matrix = np.zeros((len(elements), *self.shape), elements.dtype)
        matrix[:, self.rows, self.columns] = elements
        return matrix

    def scatter(self, matrices: Array) -> Array:
        """Return the lanes' elements [warps, 32, elements] of the matrices of all warps."""
        return matrices[:, self.rows, self.columns]


def _fragment(rows: Any, columns: Any, shape: tuple[int, int]) -> Fragment:
    rows, columns = np.broadcast_arrays(rows, columns)
    return Fragment(np.asarray(rows), np.asarray(columns), shape)


def _sum_fragment() -> Fragment:
    """Return the fragment of C and D for m16n8: elements 2 and 3 are eight rows below 0 and 1."""
    i = np.arange(4)
    return _fragment(_GROUP + 8 * (i // 2), 2 * _PLACE + i % 2, (16, 8))


def _halves_a(k: int) -> Fragment:
    """Return the fragment of A for m16n8k8 or m16n8k16 with elements of 16 bits."""
    i = np.arange(k // 2)
    return _fragment(_GROUP + 8 * (i // 2 % 2), 2 * _PLACE + i % 2 + 8 * (i // 4), (16, k))


def _halves_b(k: int) -> Fragment:
    i = np.arange(k // 4)
    return _fragment(2 * _PLACE + i % 2 + 8 * (i // 2), _GROUP, (k, 8))


def _words_a(k: int) -> Fragment:
    """Return the fragment of A for m16n8k4 or m16n8k8 with elements of 32 bits."""
    i = np.arange(k // 2)
    return _fragment(_GROUP + 8 * (i % 2), _PLACE + 4 * (i // 2), (16, k))


def _words_b(k: int) -> Fragment:
    i = np.arange(k // 4)
    return _fragment(_PLACE + 4 * i, _GROUP, (k, 8))


SHAPES: dict[tuple[str, str], tuple[Fragment, Fragment]] = {
    ("m16n8k16", "f16"): (_halves_a(16), _halves_b(16)),
    ("m16n8k8", "f16"): (_halves_a(8), _halves_b(8)),
    ("m16n8k16", "bf16"): (_halves_a(16), _halves_b(16)),
    ("m16n8k8", "bf16"): (_halves_a(8), _halves_b(8)),
    ("m16n8k8", "tf32"): (_words_a(8), _words_b(8)),
    ("m16n8k4", "tf32"): (_words_a(4), _words_b(4)),
}
"""Fragments of A and of B, by the shape of the product and the type of the elements."""

_TF32_MASK = np.uint32(0xFFFFE000)


def _by_warps(registers: list[Array], dtype: np.dtype[Any]) -> Array:
    """Return the matrix elements of all lanes, as an array [warps, 32, elements] of type ``dtype``.

    ``registers`` are the instruction's registers of an operand, each an array over all threads.
    """
    words = np.stack(registers, 1)
    return words.view(dtype).reshape(len(words) // WARP, WARP, -1)


def _product(instruction: Instruction, machine: Machine) -> Step:
    """Return a function that executes ``mma.sync``: a matrix product of each warp.

    Sums are rounded once, so that they are at least as exact as any hardware's.
    """
    found = instruction.qualifiers
    element = found[6] if len(found) == 9 else ""
    layout = ("sync", "aligned", found[2], "row", "col", "f32", element, element, "f32")
    if found != layout or (found[2], element) not in SHAPES:
        raise PtxFault(f"{instruction}: expected one of {sorted(SHAPES)} with sums of f32")
    fragments = SHAPES[found[2], element]
    dtype = DTYPES["f32" if element == "tf32" else element]
    word, sums = np.dtype(np.uint32), _sum_fragment()
    lists = [
        [machine.registers.source(name, word) for name in pieces(text)]
        for text in instruction.operands
    ]
    targets, inputs, (start,) = lists[0], lists[1:3], lists[3:]
    for registers, fragment in zip(inputs, fragments, strict=True):
        if len(registers) * 4 // dtype.itemsize != fragment.rows.shape[1]:
            raise PtxFault(f"{instruction}: expected other numbers of registers")
    starts = [np.broadcast_to(register, machine.threads) for register in start]

    def step(on: Active) -> None:
        matrices: list[Array] = []
        for registers, fragment in zip(inputs, fragments, strict=True):
            # The unit ignores the bits that tf32 has not.
            read = [r & _TF32_MASK if element == "tf32" else r for r in registers]
            matrices.append(fragment.gather(_by_warps(read, dtype)).astype(np.float64))
        c = sums.gather(_by_warps(starts, np.dtype(np.float32)))
        d = sums.scatter((matrices[0] @ matrices[1] + c).astype(np.float32))
        for place, target in enumerate(targets):
            np.copyto(target, d[:, :, place].reshape(-1).view(np.uint32), where=on.where)

    return step


def _load_matrices(instruction: Instruction, machine: Machine) -> Step:
    """Return a function that executes ``ldmatrix``: it loads 8x8 matrices of 16-bit elements.

    Eight lanes give the addresses of the rows of each matrix.
    """
    found = instruction.qualifiers
    bare = tuple(q for q in found if q != "trans")
    counts = {"x1": 1, "x2": 2, "x4": 4}
    if bare[:3] != ("sync", "aligned", "m8n8") or bare[4:] not in (
        ("shared", "b16"), ("shared::cta", "b16"),
    ):  # fmt: skip
        raise PtxFault(f"{instruction}: expected matrices of 8 by 8 halves in shared memory")
    count, is_turned = counts[bare[3]], "trans" in found
    word = np.dtype(np.uint32)
    targets = [machine.registers.target(n, word) for n in pieces(instruction.operands[0])]
    addresses = addresses_of(instruction, machine, instruction.operands[1], "shared")
    words = Words(machine.memories["shared"], 8, 2)

    def step(on: Active) -> None:
        givers = on.only(np.arange(machine.threads) % WARP < 8 * count)
        at = addresses(givers)
        try:
            rows = words.load(at)
            machine.races["shared"].read(at, words.size, givers.threads)
        except Refused as refused:
            machine.fault(instruction, givers, refused, at, "shared")
        halves = rows.view(np.uint16).reshape(-1, count, 8, 8)
        if is_turned:
            halves = halves.swapaxes(2, 3)
        lines = np.ascontiguousarray(halves).view(np.uint32)  # [warps, matrices, 8, 4]
        for place, target in enumerate(targets):
            target[on.lanes] = lines[:, place].reshape(-1)

    return step


DECODERS: dict[str, Decode] = {"mma": _product, "ldmatrix": _load_matrices}
