"""Choice of the chains of rOperators to compute in chunks that fit into a core's cache."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from math import ceil

from rammer_mlir.bindings import ir
from rammer_mlir.passes.fusion.grouping import OPERATOR
from rammer_mlir.passes.ir.chunks import chunk_of
from rammer_mlir.passes.ir.structured import shape_of
from rammer_mlir.passes.memory.chunked_chains import ChunkedChain, ChunkedChains, first_used
from rammer_mlir.passes.memory.cut_functions import CutFunctions
from rammer_mlir.passes.memory.operator_steps import kernel_names, tensor_bytes

_SMALL_CONSTANT = 64 * 1024
"""Most bytes of the weights of an rOperator in a chain, each chunk of which reads them again."""

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
        """Return the bytes that ``chunks`` chunks save: intermediates are written and read."""
        return 2 * self.intermediates - self.repeated * (chunks - 1)

    def pays(self, chunks: int) -> bool:
        """Whether chunks save most of the intermediates' traffic."""
        return self.saved(chunks) >= _LEAST_SAVED * 2 * self.intermediates


@dataclass(frozen=True)
class CachedChains:
    """Finds chains of products of values known at run time, as in an attention.

    Chains with large weights are left as they are, because each chunk would read the weights again;
    so are chains whose chunks would overlap.

    Attributes:
        functions: the functions of the rOperators.
        constants: the values known at compile time.
        cache: bytes that the intermediates of a chunk may have.
        settled: rOperators that end no chain to compute in chunks.
    """

    functions: CutFunctions
    constants: Container[ir.Value]
    cache: int
    settled: set[ir.Operation] = field(default_factory=set[ir.Operation])

    def choose(self, block: ir.Block, chains: ChunkedChains) -> ChunkedChain | None:
        """Return a chain to compute in chunks, from the end of a block; None if there is none."""
        operators = [op for op in block.operations if op.operation.name == OPERATOR]
        # Chunks are cut again only after all chains are cut.
        ends = sorted(reversed(operators), key=lambda op: chunk_of(op.operation) is not None)
        for sink in ends:
            if sink.operation in self.settled:
                continue
            most = _MOST_OPERATORS - len(operators)
            fitting = [
                (chain, saved)
                for chain, saved in self._ending_at(sink, chains)
                if len(chain.operators) * (len(chain.chunks) - 1) <= most
            ]
            if fitting:
                return max(fitting, key=lambda pair: pair[1])[0]
            self.settled.add(sink.operation)
        return None

    def _ending_at(
        self, sink: ir.OpView, chains: ChunkedChains
    ) -> Iterator[tuple[ChunkedChain, int]]:
        """Yield the chains whose last rOperator is ``sink``, with the bytes that chunks save."""
        largest = max(map(tensor_bytes, sink.operation.operands), default=0)
        if largest < self.cache or not self._is_product(sink):
            return
        for axis, size in enumerate(shape_of(first_used(sink))):
            if size < 2:
                continue
            for rough in chains.ending_at(sink, axis, 2):
                traffic = self._traffic(rough)
                if traffic is None or traffic.intermediates <= _EXCESS * self.cache:
                    continue
                count = min(size, _MOST_CHUNKS, ceil(traffic.intermediates / self.cache))
                while size % count and count < min(size, _MOST_CHUNKS):
                    count += 1
                if not traffic.pays(count):
                    continue
                for chain in chains.ending_at(sink, axis, count):
                    if len(chain.nodes) == len(rough.nodes) and self._is_exact(chain):
                        yield chain, traffic.saved(count)

    def _is_product(self, op: ir.OpView) -> bool:
        """Whether an rOperator computes a product of two values known at run time."""
        values = [v for v in op.operation.operands if v not in self.constants]
        return len(values) > 1 and self.functions.has_contraction(kernel_names(op)[0])

    def _traffic(self, chain: ChunkedChain) -> CacheTraffic | None:
        """Return a chain's traffic; None if it has large weights or fewer than two products."""
        operators = chain.operators
        if sum(map(self._is_product, operators)) < 2:
            return None
        inside = {result for node in chain.nodes[1:] for result in node.results}
        repeated: set[ir.Value] = set()
        for node, needed in zip(chain.nodes, chain.chunks[0].needed, strict=True):
            for value, cut in zip(node.operation.operands, needed, strict=True):
                if value in inside or cut is not None:
                    continue
                if value in self.constants and tensor_bytes(value) > _SMALL_CONSTANT:
                    return None
                repeated.add(value)
        between = [tensor_bytes(r) for op in operators[:-1] for r in op.results]
        large = [size for size in between if 2 * size >= max(between)]
        return CacheTraffic(sum(large), sum(map(tensor_bytes, repeated)))

    def _is_exact(self, chain: ChunkedChain) -> bool:
        """Whether each result of the chain is computed once: chunks do not overlap."""
        for number, node in enumerate(chain.nodes):
            for result, *cuts in zip(
                node.results, *(chunk.parts[number] for chunk in chain.chunks), strict=True
            ):
                found = [cut for cut in cuts if cut is not None]
                if found and sum(c.size for c in found) != shape_of(result)[found[0].axis]:
                    return False
        return True
