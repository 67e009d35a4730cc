"""Emits contractions by a plan: operands staged in shared memory, results in register tiles.

Operands are staged in chunks: a chunk is the part of each operand that some consecutive iterations
of the first reduction loop read. Groups of threads divide the iterations of each chunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod

from rammer_mlir.bindings import arith, gpu, ir, memref, scf
from rammer_mlir.lowering.gpu.contractions.output import Output
from rammer_mlir.lowering.gpu.contractions.plan import ContractionPlan, Staged
from rammer_mlir.lowering.gpu.contractions.shared_loads import SharedLoads
from rammer_mlir.lowering.gpu.contractions.staging import Box, Copies, Piece, pieces
from rammer_mlir.lowering.gpu.contractions.warp_products import WarpProducts, warp_products
from rammer_mlir.lowering.gpu.generic_body import emit_body
from rammer_mlir.lowering.gpu.guards import when
from rammer_mlir.lowering.gpu.iteration_space import unflatten
from rammer_mlir.lowering.gpu.results import Results
from rammer_mlir.lowering.gpu.threads import Threads
from rammer_mlir.lowering.kernels.affine import (
    Index,
    add,
    as_value,
    constant,
    multiply,
)
from rammer_mlir.lowering.kernels.combiners import find_combiners
from rammer_mlir.passes.ir.structured import Buffer, as_buffer


@dataclass(frozen=True)
class StagingMemory:
    """The block's shared memory for staging: a byte buffer, used from byte ``offset`` on."""

    buffer: Buffer
    offset: int

    def view(self, offset: int, elements: int, element: ir.Type) -> Buffer:
        """Emit a rank-1 view of ``elements`` elements of type ``element`` in the staging memory.

        The view begins ``offset`` bytes after the beginning of the staging memory.
        """
        space = self.buffer.type.memory_space
        kind = ir.MemRefType.get([elements], element, memory_space=space)
        return memref.view(kind, self.buffer, constant(self.offset + offset), [])


@dataclass(frozen=True)
class Share:
    """A thread's share of the block's work.

    A thread or, with matrix instructions, a warp computes a tile of results. Groups of threads
    divide the iterations of a chunk, which is the part of the reduction that is staged at a time.

    Attributes:
        group: index of the thread's group.
        tile: index of the thread's tile along each parallel loop.
        starts: index of the thread's first result along each parallel loop.
        active: an i1 that tells whether the thread computes results; None if all threads do.
        warp: emitter of the matrix instructions of the thread's warp, None if threads compute
            individually.
    """

    group: Index
    tile: tuple[Index, ...]
    starts: tuple[Index, ...]
    active: ir.Value | None
    warp: WarpProducts | None


def emit_contraction(
    results: Results,
    plan: ContractionPlan,
    threads: Threads,
    memory: StagingMemory,
    copies: Copies,
) -> None:
    """Emit a planned ``linalg.generic`` as the code of each thread of a block.

    Args:
        results: emits the initial values, epilogues and stores of the operation, which is its
            ``reduction``, on memrefs.
        plan: the operation's plan.
        threads: the thread's index, and the size of the block.
        memory: shared memory for staged operands.
        copies: emits the copies of operands to shared memory, synchronous or asynchronous.
    """
    _Emitter(results, plan, threads, memory, copies).emit()


class _Emitter:
    def __init__(
        self,
        results: Results,
        plan: ContractionPlan,
        threads: Threads,
        memory: StagingMemory,
        copies: Copies,
    ) -> None:
        generic = results.reduction
        self._generic, self._plan, self._threads = generic, plan, threads
        self._memory, self._copies = memory, copies
        (self._combiner,) = find_combiners(generic) or []
        self._output = Output(results, plan, self._combiner)
        self._boxes = [self._box(staged) for staged in plan.operands]

    def _box(self, staged: Staged) -> Box:
        source = as_buffer(self._generic.operands[staged.access.number])
        elements = self._plan.stages * staged.elements
        shared = self._memory.view(staged.offset, elements, source.type.element_type)
        return Box(staged, source, shared)

    def emit(self) -> None:
        """Emit loops that compute the rTask's results, ``plan.block`` results in each iteration."""
        share = self._share()
        extents = self._plan.contraction.extents
        origin: list[Index] = []
        with ExitStack() as nest:
            for loop, size in zip(self._plan.contraction.parallel, self._plan.block, strict=True):
                rounds = -(-extents[loop] // size)
                if rounds == 1:
                    origin.append(0)
                    continue
                round_loop = scf.ForOp(constant(0), constant(rounds), constant(1))
                nest.enter_context(ir.InsertionPoint(round_loop.body))
                nest.callback(scf.YieldOp, [])
                origin.append(multiply(round_loop.induction_variable, size))
            self._block(origin, share)
            if any(not isinstance(index, int) for index in origin):
                gpu.barrier()

    def _share(self) -> Share:
        plan, threads = self._plan, self._threads
        number, warp = threads.number, None
        if plan.matrix:
            lane = arith.remui(threads.number, constant(plan.lanes))
            number = arith.divui(threads.number, constant(plan.lanes))
            warp = warp_products(plan, self._boxes, lane)
        tiles = prod(plan.tiles)
        group, place = unflatten(number, [plan.groups, tiles])
        active = None
        if tiles * plan.groups * plan.lanes < threads.count:
            limit = constant(tiles * plan.groups)
            active = arith.cmpi(arith.CmpIPredicate.ult, number, limit)
        tile = unflatten(as_value(place), plan.tiles)
        own = warp.starts() if warp else {}
        loops = zip(plan.contraction.parallel, tile, plan.scales, strict=True)
        starts = [add(multiply(t, scale), own.get(loop, 0)) for loop, t, scale in loops]
        return Share(group, tuple(tile), tuple(starts), active, warp)

    def _block(self, origin: Sequence[Index], share: Share) -> None:
        plan = self._plan
        first = self._fetch(origin, 0, 0)
        self._copies.finish(first, self._copies.begin(first))
        gpu.barrier()
        results = [self._combiner.identity()] * len(plan.offsets)
        if plan.num_chunks == 1:
            results = self._compute(share, 0, results)
            if plan.groups > 1:
                gpu.barrier()
        else:
            results = self._walk(origin, share, results)
        if plan.groups > 1:
            self._combine_groups(origin, share, results)
        else:
            self._store(origin, share, results)

    def _walk(
        self, origin: Sequence[Index], share: Share, results: Sequence[ir.Value]
    ) -> list[ir.Value]:
        """Emit the loop over chunks, which prefetches the next chunk; return the accumulators.

        ``origin`` has, for each parallel loop, the index of the first result that the block
        computes in the current iteration of the loops of ``emit``. ``results`` has the initial
        values of the thread's accumulators.
        """
        chunks = constant(self._plan.num_chunks)
        loop = scf.ForOp(constant(0), chunks, constant(1), results)
        with ir.InsertionPoint(loop.body):
            chunk = loop.induction_variable
            # Double buffering: odd chunks use the second stage.
            stage = arith.andi(chunk, constant(1))
            following = add(chunk, 1)
            wanted = arith.cmpi(arith.CmpIPredicate.ult, following, chunks)
            other = arith.subi(constant(1), stage)
            fetched = self._fetch(origin, following, other, wanted)
            begun = self._copies.begin(fetched)
            found = self._compute(share, stage, list(loop.inner_iter_args))
            self._copies.finish(fetched, begun)
            gpu.barrier()
            scf.YieldOp(found)
        return list(loop.results)

    def _fetch(
        self, origin: Sequence[Index], chunk: Index, stage: Index, wanted: ir.Value | None = None
    ) -> list[Piece]:
        contraction = self._plan.contraction
        at: dict[int, Index] = dict(zip(contraction.parallel, origin, strict=True))
        at[contraction.reduced[0]] = multiply(chunk, self._plan.chunk)
        found: list[Piece] = []
        for box in self._boxes:
            access = box.staged.access
            begin: list[Index] = []
            for row, offset in zip(access.rows, access.constants, strict=True):
                index: Index = offset
                for loop, position in at.items():
                    index = add(index, multiply(position, row[loop]))
                begin.append(index)
            found += pieces(box, begin, stage, self._threads.number, self._threads.count, wanted)
        return found

    def _compute(self, share: Share, stage: Index, results: Sequence[ir.Value]) -> list[ir.Value]:
        """Emit a thread's computation on a chunk in shared memory; return the new accumulators.

        With double buffering, shared memory has two chunks: ``stage`` is the index of the current
        chunk, 0 or 1. ``results`` has the old accumulators.
        """
        if share.active is None:
            return self._nest(share, stage, results)
        choice = scf.IfOp(share.active, [r.type for r in results], has_else=True)
        with ir.InsertionPoint(choice.then_block):
            scf.YieldOp(self._nest(share, stage, results))
        with ir.InsertionPoint(choice.else_block):
            scf.YieldOp(list(results))
        return list(choice.results)

    def _nest(self, share: Share, stage: Index, results: Sequence[ir.Value]) -> list[ir.Value]:
        plan = self._plan
        bases: list[Index] = []
        for box in self._boxes:
            staged = box.staged
            base = multiply(stage, staged.elements)
            base = add(base, multiply(share.group, plan.group_step(staged)))
            for tile, step in zip(share.tile, plan.tile_steps(staged), strict=True):
                base = add(base, multiply(tile, step))
            bases.append(base)
        return self._steps(share, plan.nest, bases, results)

    def _steps(
        self,
        share: Share,
        nest: Sequence[tuple[int, int, int]],
        bases: Sequence[Index],
        results: Sequence[ir.Value],
    ) -> list[ir.Value]:
        """Emit a thread's loops over the iterations of a chunk; return the new accumulators.

        Args:
            share: the thread's part of the work.
            nest: for each loop, as in ``ContractionPlan.nest``: (loop index, trip count, unrolled
                iterations per trip).
            bases: for each operand, the index in shared memory of the first element to read.
            results: the old accumulators.
        """
        if not nest:
            return self._products(share, bases, results)
        (number, trips, step), *inner = nest
        if trips == 1:
            return self._steps(share, inner, bases, results)
        loop = scf.ForOp(constant(0), constant(trips), constant(1), results)
        with ir.InsertionPoint(loop.body):
            moved = [
                add(base, multiply(loop.induction_variable, step * box.staged.factor(number)))
                for base, box in zip(bases, self._boxes, strict=True)
            ]
            scf.YieldOp(self._steps(share, inner, moved, list(loop.inner_iter_args)))
        return list(loop.results)

    def _products(
        self, share: Share, bases: Sequence[Index], results: Sequence[ir.Value]
    ) -> list[ir.Value]:
        if share.warp:
            return share.warp.add_products(bases, results)
        plan = self._plan
        loads = SharedLoads(self._generic, plan, self._boxes, bases)
        current = list(results)
        for step in range(plan.unrolled):
            for n, offset in enumerate(plan.offsets):
                point = plan.point(offset, step)
                (current[n],) = emit_body(self._generic, point, [current[n]], loads)
        return current

    def _store(self, origin: Sequence[Index], share: Share, results: Sequence[ir.Value]) -> None:
        """Emit the accumulation of a thread's results into the output.

        ``origin`` has, for each parallel loop, the index of the first result that the block
        computes in the current iteration of the loops of ``emit``. ``share`` describes the thread's
        part of the work.
        """
        with when(share.active):
            starts = [add(o, start) for o, start in zip(origin, share.starts, strict=True)]
            self._output.add_all(starts, results)

    def _combine_groups(
        self, origin: Sequence[Index], share: Share, results: Sequence[ir.Value]
    ) -> None:
        """Emit the combination of all groups' partial results, and the store of the totals.

        The partial results are exchanged in shared memory, and the totals are accumulated into the
        output. ``origin`` has, for each parallel loop, the index of the first result that the block
        computes in the current iteration of the loops of ``emit``. ``results`` has a thread's
        partial results. ``share`` describes the thread's part of the work.
        """
        plan, total = self._plan, self._plan.num_results
        partial = self._memory.view(0, plan.groups * total, results[0].type)
        with when(share.active):
            own = multiply(share.group, total)
            for offset, value in zip(plan.offsets, results, strict=True):
                place = own
                for start, shift, stride in zip(
                    share.starts, offset, plan.block_strides, strict=True
                ):
                    place = add(place, multiply(add(start, shift), stride))
                memref.store(value, partial, [as_value(place)])
        gpu.barrier()
        loop = scf.ForOp(self._threads.number, constant(total), constant(self._threads.count))
        with ir.InsertionPoint(loop.body):
            number = loop.induction_variable
            whole = memref.load(partial, [number])
            for group in range(1, plan.groups):
                value = memref.load(partial, [add(number, group * total)])
                whole = self._combiner.combine(whole, value)
            inside = unflatten(number, plan.block)
            at = [add(begin, index) for begin, index in zip(origin, inside, strict=True)]
            self._output.add(at, whole)
            scf.YieldOp([])
