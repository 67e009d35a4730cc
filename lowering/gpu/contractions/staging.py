"""Emits copies of operands' boxes from device to shared memory, by all threads of a block.

A fetch copies the boxes for the next chunk of the reduction while the threads compute on the
current chunk. With asynchronous copies, the end of a fetch is a wait for the copies. Otherwise the
fetched elements stay in registers during the computation, and the end of the fetch stores the
elements to shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Protocol

from rammer_mlir.bindings import arith, ir, memref, nvgpu, scf, vector
from rammer_mlir.lowering.gpu.alignment import divisor, holds_aligned_runs
from rammer_mlir.lowering.gpu.contractions.plan import WIDEST, Staged
from rammer_mlir.lowering.gpu.guards import all_below, when
from rammer_mlir.lowering.gpu.iteration_space import unflatten
from rammer_mlir.lowering.kernels.affine import Index, add, as_value, constant, multiply
from rammer_mlir.passes.ir.structured import Buffer

_LEAST_ASYNC = 4
"""Number of bytes of the smallest asynchronous copy."""


@dataclass(frozen=True)
class Box:
    """An operand's box in shared memory.

    Attributes:
        staged: the shape and the strides of the box.
        source: the operand, a memref.
        shared: the shared memory of all stages of the box, a memref of rank 1.
    """

    staged: Staged
    source: Buffer
    shared: Buffer


@dataclass(frozen=True)
class Piece:
    """Adjacent elements of an operand that one thread copies to the operand's box.

    Attributes:
        box: the operand's box in shared memory.
        at: indices of the first element in the operand.
        to: index of the first element in shared memory.
        width: number of elements.
        inside: an i1 that tells whether the elements are inside the operand; None if they always
            are.
        mine: an i1 that tells whether this thread copies a piece; None if every thread copies a
            piece.
    """

    box: Box
    at: tuple[ir.Value, ...]
    to: ir.Value
    width: int
    inside: ir.Value | None
    mine: ir.Value | None

    @property
    def num_bytes(self) -> int:
        """The size of the piece in bytes."""
        return self.width * self.box.staged.access.element_bytes


class Copies(Protocol):
    """Emits a target's instructions that copy pieces from device memory to shared memory."""

    def begin(self, pieces: Sequence[Piece]) -> list[ir.Value]:
        """Emit the beginning of a fetch of ``pieces``; return the loaded values or tokens.

        The returned values are an argument of ``finish``.
        """
        ...

    def finish(self, pieces: Sequence[Piece], begun: Sequence[ir.Value]) -> None:
        """Emit the end of a fetch of ``pieces``; ``begun`` has the values that ``begin`` returned.

        The caller then emits a block barrier, so that other threads see the fetched elements.
        """
        ...


class RegisterCopies:
    """Emits copies through registers on any target: first the loads, later the stores."""

    def begin(self, pieces: Sequence[Piece]) -> list[ir.Value]:
        """Emit loads of ``pieces`` into registers; return the loaded values.

        Elements outside the operand become zeros.
        """
        return [self._load(piece) for piece in pieces]

    def _load(self, piece: Piece) -> ir.Value:
        kind = _loaded_type(piece)
        conditions = [c for c in (piece.inside, piece.mine) if c is not None]
        if not conditions:
            return _load(piece, kind)
        condition = conditions[0]
        for other in conditions[1:]:
            condition = arith.andi(condition, other)
        choice = scf.IfOp(condition, [kind], has_else=True)
        with ir.InsertionPoint(choice.then_block):
            scf.YieldOp([_load(piece, kind)])
        with ir.InsertionPoint(choice.else_block):
            scf.YieldOp([_zero(kind)])
        return choice.results[0]

    def finish(self, pieces: Sequence[Piece], begun: Sequence[ir.Value]) -> None:
        """Emit the stores of the loaded elements to shared memory."""
        for piece, value in zip(pieces, begun, strict=True):
            with when(piece.mine):
                if piece.width == 1:
                    memref.store(value, piece.box.shared, [piece.to])
                else:
                    vector.store(value, piece.box.shared, [piece.to], alignment=piece.num_bytes)


class AsyncCopies:
    """Emits asynchronous copies (``cp.async``, from sm_80 on) that need no registers.

    An asynchronous copy has at least four contiguous bytes of device memory. Narrower or strided
    pieces, and pieces of temporaries in shared memory, are copied through registers.
    """

    def __init__(self) -> None:
        self._registers = RegisterCopies()

    def begin(self, pieces: Sequence[Piece]) -> list[ir.Value]:
        """Emit the start of the asynchronous copies, and the loads of other pieces into registers.

        Returns the token of the asynchronous copies, then the loaded values. Elements outside the
        operand become zeros.
        """
        for piece in pieces:
            if _is_async(piece):
                self._start(piece)
        group = nvgpu.device_async_create_group([])
        return [group, *self._registers.begin(_others(pieces))]

    def _start(self, piece: Piece) -> None:
        taken: ir.Value | None = None
        if piece.inside is not None:
            taken = arith.select(piece.inside, constant(piece.width), constant(0))
        with when(piece.mine):
            nvgpu.device_async_copy(
                piece.box.shared, [piece.to], piece.box.source, list(piece.at), piece.width,
                src_elements=taken, bypass_l1=piece.num_bytes == WIDEST,
            )  # fmt: skip

    def finish(self, pieces: Sequence[Piece], begun: Sequence[ir.Value]) -> None:
        """Emit the end of a fetch: a wait for this thread's asynchronous copies.

        Before the wait, the pieces in registers are stored to shared memory. ``begun`` has the
        token of the asynchronous copies, then the values that were loaded into registers.
        """
        group, *loaded = begun
        self._registers.finish(_others(pieces), loaded)
        nvgpu.device_async_wait(group, num_groups=0)


def _is_async(piece: Piece) -> bool:
    """Return whether ``cp.async`` can copy a piece.

    The piece must be contiguous, long enough and in device memory.
    """
    kind = piece.box.source.type
    strides, _ = kind.get_strides_and_offset()
    return piece.num_bytes >= _LEAST_ASYNC and strides[-1] == 1 and kind.memory_space is None


def _others(pieces: Sequence[Piece]) -> list[Piece]:
    return [piece for piece in pieces if not _is_async(piece)]


def _loaded_type(piece: Piece) -> ir.Type:
    element = piece.box.source.type.element_type
    return element if piece.width == 1 else ir.VectorType.get([piece.width], element)


def _load(piece: Piece, kind: ir.Type) -> ir.Value:
    if piece.width == 1:
        return memref.load(piece.box.source, list(piece.at))
    return vector.load(kind, piece.box.source, list(piece.at), alignment=piece.num_bytes)


def _zero(kind: ir.Type) -> ir.Value:
    if isinstance(kind, ir.VectorType):
        zero = ir.FloatAttr.get(kind.element_type, 0.0)
        return arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, zero))
    return arith.constant(kind, ir.FloatAttr.get(kind, 0.0))


def pieces(
    box: Box,
    origin: Sequence[Index],
    stage: Index,
    thread: ir.Value,
    threads: int,
    wanted: ir.Value | None = None,
) -> list[Piece]:
    """Return the pieces of a box that a thread copies; emit their indices.

    Args:
        box: the operand's box.
        origin: the first index of the box along each dimension of the operand.
        stage: index of the stage (a copy of the box in shared memory) to fill, 0 or 1.
        thread: the thread's index in the block.
        threads: number of threads of the block.
        wanted: an i1, false if nothing is to be copied; None to always copy.
    """
    staged = box.staged
    width = _width(box, origin)
    counts = [*staged.box[:-1], staged.box[-1] // width]
    total = prod(counts)
    found: list[Piece] = []
    for first in range(0, total, threads):
        mine = wanted
        if first + threads > total:
            is_piece = arith.cmpi(arith.CmpIPredicate.ult, thread, constant(total - first))
            mine = is_piece if wanted is None else arith.andi(is_piece, wanted)
        coordinates = unflatten(thread, counts, first)
        coordinates[-1] = multiply(coordinates[-1], width)
        to = multiply(stage, staged.elements)
        for coordinate, stride in zip(coordinates, staged.strides, strict=True):
            to = add(to, multiply(coordinate, stride))
        at = [add(c, o) for c, o in zip(coordinates, origin, strict=True)]
        inside = _inside(box, at)
        if inside is not None:
            at = [arith.select(inside, as_value(index), constant(0)) for index in at]
        found.append(Piece(box, tuple(map(as_value, at)), as_value(to), width, inside, mine))
    return found


def _width(box: Box, origin: Sequence[Index]) -> int:
    """Return the number of adjacent elements of a box that a thread copies with one access.

    The number is as large as the provable alignment permits. ``origin`` has the first index of the
    box along each dimension of the operand.
    """
    width = WIDEST // box.staged.access.element_bytes
    while width > 1 and not _fits(box, origin[-1], width):
        width //= 2
    return width


def _fits(box: Box, first: Index, width: int) -> bool:
    """Return whether accesses of ``width`` elements are aligned and inside the box and operand.

    ``first`` is the first index of the box along the last dimension of the operand.
    """
    offset = first % width if isinstance(first, int) else divisor(first) % width
    return (
        box.staged.box[-1] % width == 0
        and offset == 0
        and not _is_cut(box, len(box.staged.box) - 1)
        and holds_aligned_runs(box.source, width)
    )


def _is_cut(box: Box, dimension: int) -> bool:
    """Return whether boxes of some chunks or tiles may exceed the operand along a dimension."""
    kind = box.source.type
    return kind.is_dynamic_dim(dimension) or box.staged.reach[dimension] > kind.shape[dimension]


def _inside(box: Box, at: Sequence[Index]) -> ir.Value | None:
    """Emit an i1 that tells whether the indices ``at`` are inside the operand.

    Return None if the operand contains every index of every box.
    """
    return all_below(
        (index, memref.dim(box.source, constant(dimension)))
        for dimension, index in enumerate(at)
        if _is_cut(box, dimension)
    )
