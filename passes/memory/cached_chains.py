"""Chooses chains of rOperators to compute in chunks that fit into a core's cache."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

from rammer_mlir.bindings import ir
from rammer_mlir.passes.fusion.grouping import OPERATOR
from rammer_mlir.passes.ir.chunks import chunk_of
from rammer_mlir.passes.ir.structured import shape_of
from rammer_mlir.passes.memory.chunked_chains import ChunkedChain, ChunkedChains, first_used
from rammer_mlir.passes.memory.cut_functions import CutFunctions
from rammer_mlir.passes.memory.operator_steps import kernel_names, tensor_bytes

_SMALL_CONSTANT = 64 * 1024
"""Maximum bytes of a weight that every chunk of a chain reads as a whole."""

_MOST_CHUNKS = 64
"""Maximum number of chunks of a chain; each chunk adds rOperators to the schedule."""

_MOST_OPERATORS = 1024
"""Maximum number of rOperators of a model with chunks; more take long to schedule."""

_EXCESS = 1.5
"""Factor by which the intermediates of a chain must exceed the cache for chunks to pay."""

_LEAST_SAVED = 0.5
"""Least share of the intermediates' traffic that chunks must save.

The bytes of operands that every chunk reads whole are subtracted from the saving.
"""


@dataclass(frozen=True)
class CacheTraffic:
    """The traffic of a chain of rOperators between a core's cache and memory.

    Attributes:
        intermediates: bytes of the large values between the chain's rOperators: those of at least
            half the size of the largest.
        repeated: bytes of the operands that every chunk reads whole.
    """

    intermediates: int
    repeated: int

    def saved(self, chunks: int) -> int:
        """Return the bytes of traffic that the computation of the chain in ``chunks`` chunks saves.

        Intermediates are then neither written to memory nor read from it, but each chunk reads the
        repeated operands again.
        """
        return 2 * self.intermediates - self.repeated * (chunks - 1)

    def pays(self, chunks: int) -> bool:
        """Whether computing the chain in ``chunks`` chunks saves enough of its traffic.

        At least half of the bytes that the intermediates move to and from memory must be saved.
        """
        return self.saved(chunks) >= _LEAST_SAVED * 2 * self.intermediates


class _Candidate(NamedTuple):
    """A chain of rOperators whose computation in chunks saves enough traffic.

    The chain ends at a given rOperator. Its traffic is the bytes moved between a core's cache and
    memory; ``CacheTraffic.pays`` says how much is enough.

    Attributes:
        axis: the dimension to cut into chunks, counted in the first used result of the last
            rOperator.
        chunks: the number of chunks.
        nodes: the number of operations of the chain.
        saved: the bytes of traffic that the chunks save.
    """

    axis: int
    chunks: int
    nodes: int
    saved: int


@dataclass(frozen=True)
class CachedChains:
    """Searches for chains of rOperators to compute in chunks, such as the products of attention.

    A chain needs at least two contractions of run-time values: both factors are known only at run
    time. A chain is not cut into chunks in these cases:

    - It reads large weights, which each chunk would read again.
    - Two chunks would compute the same element.

    Attributes:
        functions: creates the functions that compute a chunk's part of an rOperator's results.
        constants: the SSA values that are known at compile time.
        cache: maximum bytes of the intermediates of a chunk.
        settled: the last rOperators for which an earlier search found no chain to cut.
    """

    functions: CutFunctions
    constants: Container[ir.Value]
    cache: int
    settled: set[ir.Operation] = field(default_factory=set[ir.Operation])
    _products: dict[tuple[str, tuple[bool, ...]], bool] = field(
        default_factory=dict[tuple[str, tuple[bool, ...]], bool]
    )

    def choose(self, block: ir.Block, chains: ChunkedChains) -> ChunkedChain | None:
        """Return the last chain in the block that should be cut into chunks; None if there is none.

        ``chains`` finds the chains of the block. A chain that ends at a chunk of an earlier chain
        is returned only if there is no other chain.
        """
        operators = [op for op in block.operations if op.operation.name == OPERATOR]
        # Chunks are cut again only after all chains are cut.
        ends = sorted(reversed(operators), key=lambda op: chunk_of(op.operation) is not None)
        for sink in ends:
            if sink.operation in self.settled:
                continue
            most = _MOST_OPERATORS - len(operators)
            for found in sorted(self._ending_at(sink, chains), key=lambda each: -each.saved):
                chain = self._built(found, sink, chains)
                if chain is None:
                    continue
                if len(chain.operators) * (len(chain.chunks) - 1) <= most:
                    return chain
            self.settled.add(sink.operation)
        return None

    def _ending_at(self, sink: ir.OpView, chains: ChunkedChains) -> Iterator[_Candidate]:
        """Yield the chains that end at rOperator ``sink`` and whose chunks save enough traffic.

        ``CacheTraffic.pays`` says how much is enough.
        """
        largest = max(map(tensor_bytes, sink.operation.operands), default=0)
        if largest < self.cache or not self._is_product(sink):
            return
        for axis, size in enumerate(shape_of(first_used(sink))):
            if size < 2:
                continue
            # Two chunks suffice to know a chain's traffic.
            for rough in chains.ending_at(sink, axis, 2):
                if self._reads_large_weights(rough):
                    break
                traffic = self._traffic(rough)
                if traffic is None or traffic.intermediates <= _EXCESS * self.cache:
                    continue
                count = min(size, _MOST_CHUNKS, ceil(traffic.intermediates / self.cache))
                while size % count and count < min(size, _MOST_CHUNKS):
                    count += 1
                if traffic.pays(count):
                    yield _Candidate(axis, count, len(rough.nodes), traffic.saved(count))

    def _built(
        self, found: _Candidate, sink: ir.OpView, chains: ChunkedChains
    ) -> ChunkedChain | None:
        """Return the chain that ``found`` describes, cut into ``found.chunks`` chunks.

        Return None if two chunks would compute the same element.
        """
        for chain in chains.ending_at(sink, found.axis, found.chunks):
            if len(chain.nodes) >= found.nodes:
                same = len(chain.nodes) == found.nodes
                return chain if same and self._is_exact(chain) else None
        return None

    def _is_product(self, op: ir.OpView) -> bool:
        """Whether an rOperator contracts two values that are both known only at run time."""
        name = kernel_names(op)[0]
        known = tuple(value in self.constants for value in op.operation.operands)
        if (name, known) not in self._products:
            self._products[name, known] = self.functions.has_run_time_product(name, known)
        return self._products[name, known]

    def _whole_operands(self, chain: ChunkedChain) -> set[ir.Value]:
        """Return the values from outside of a chain that every chunk reads as a whole."""
        inside = {result for node in chain.nodes[1:] for result in node.results}
        return {
            value
            for node, needed in zip(chain.nodes, chain.chunks[0].needed, strict=True)
            for value, cut in zip(node.operation.operands, needed, strict=True)
            if cut is None and value not in inside
        }

    def _reads_large_weights(self, chain: ChunkedChain) -> bool:
        """Whether every chunk reads a weight of more than ``_SMALL_CONSTANT`` bytes as a whole.

        If so, this also holds for all longer chains that contain ``chain``.
        """
        return any(
            value in self.constants and tensor_bytes(value) > _SMALL_CONSTANT
            for value in self._whole_operands(chain)
        )

    def _traffic(self, chain: ChunkedChain) -> CacheTraffic | None:
        """Return a chain's traffic between cache and memory.

        Return None if fewer than two rOperators of the chain contract two values that are known
        only at run time; such a chain is not cut into chunks.
        """
        operators = chain.operators
        if sum(map(self._is_product, operators)) < 2:
            return None
        between = [tensor_bytes(r) for op in operators[:-1] for r in op.results]
        large = [size for size in between if 2 * size >= max(between)]
        return CacheTraffic(sum(large), sum(map(tensor_bytes, self._whole_operands(chain))))

    def _is_exact(self, chain: ChunkedChain) -> bool:
        """Whether no two chunks compute the same element of any result in the chain.

        The results include the intermediates of the chain.
        """
        for number, node in enumerate(chain.nodes):
            for result, *cuts in zip(
                node.results, *(chunk.parts[number] for chunk in chain.chunks), strict=True
            ):
                found = [cut for cut in cuts if cut is not None]
                if found and sum(c.size for c in found) != shape_of(result)[found[0].axis]:
                    return False
        return True
