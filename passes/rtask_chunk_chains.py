"""`rtask-chunk-chains`: computes chains of products in chunks that fit into a core's cache."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import count
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.passes.base import Form, Pass, check_least
from rammer_mlir.passes.ir.chunks import chunk_of, mark_chunk
from rammer_mlir.passes.ir.constants import constant_arguments
from rammer_mlir.passes.ir.entry import entry_block, entry_function
from rammer_mlir.passes.memory.cached_chains import CachedChains
from rammer_mlir.passes.memory.chunk_emission import emit_chunks, erase_uncalled
from rammer_mlir.passes.memory.chunked_chains import ChunkedChains
from rammer_mlir.passes.memory.cut_functions import CutFunctions
from rammer_mlir.passes.memory.operator_steps import kernel_names

_MOST_CHAINS = 256
"""Maximum number of chains of rOperators in a model that are computed in chunks."""


@dataclass(frozen=True)
class ChunkChains(Pass):
    """Compute chains of products of run-time values in chunks that fit into ``cache`` bytes.

    In attention, for example, a product writes the scores, a softmax reads and writes them, and
    another product reads them. If each head is computed as a separate chunk, its scores stay in a
    core's second-level cache. A chain is cut along a dimension that is a parallel loop of each
    rOperator. It is cut only if its chunks do not overlap, and if the operands that every chunk
    reads completely are small compared to the intermediates; so chains with large weights are not
    cut. An attribute of the rOperators identifies their chunk: `rtask-schedule` limits the count of
    chunks in progress.
    """

    name: ClassVar[str] = "rtask-chunk-chains"
    takes: ClassVar[Form | None] = Form.TENSORS

    cache: int = 1024 * 1024

    def check_options(self) -> None:
        """Raise an OptionError if ``cache`` is below 1."""
        check_least(self, 1, "cache")

    def run(self, module: ir.Module) -> None:
        """Compute chains of the entry function in chunks; run after `rtask-form-operators`."""
        block, functions = entry_block(module), CutFunctions(module)
        constants = {weight.value for weight in constant_arguments(entry_function(module))}
        search = CachedChains(functions, constants, self.cache)
        replaced: set[str] = set()
        unique = count()
        for number in range(_MOST_CHAINS):
            chain = search.choose(block, ChunkedChains(block, functions, set()))
            if chain is None:
                break
            replaced |= {name for op in chain.operators for name in kernel_names(op)}
            # A chunk that is cut again stays in its chain.
            outer = chunk_of(chain.operators[0].operation)
            search.settled.difference_update(node.operation for node in chain.nodes)
            *chunks, _ = emit_chunks(chain, functions)
            for made in chunks:
                mark_chunk(made, number if outer is None else outer[0], next(unique))
        _number_chunks(block)
        erase_uncalled(module, replaced)


def _number_chunks(block: ir.Block) -> None:
    """Renumber the chunks of each chain from 0, in the order of the block's operations."""
    numbers: defaultdict[int, dict[int, int]] = defaultdict(dict)
    for op in block.operations:
        found = chunk_of(op.operation)
        if found is not None:
            chain, old = found
            new = numbers[chain].setdefault(old, len(numbers[chain]))
            mark_chunk([op.operation], chain, new)
