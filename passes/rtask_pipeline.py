"""`rtask-pipeline`: computes chains of rOperators in chunks, to lower the memory peak."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.passes.base import Form, Pass, check_least
from rammer_mlir.passes.ir.entry import entry_block
from rammer_mlir.passes.memory.chunk_emission import emit_chunks, erase_uncalled
from rammer_mlir.passes.memory.chunked_chains import ChunkedChains
from rammer_mlir.passes.memory.chunking import choose_chain
from rammer_mlir.passes.memory.cut_functions import CutFunctions
from rammer_mlir.passes.memory.operator_steps import kernel_names, read_steps

_MOST_CHAINS = 64
"""Maximum number of chains of rOperators in a model that are computed in chunks."""


@dataclass(frozen=True)
class Pipeline(Pass):
    """Compute chains of rOperators in ``chunks`` chunks; their intermediates then need less memory.

    A chain is cut along a dimension that is a parallel loop of each of its rOperators. Each chunk
    computes a part of the chain's last result; the parts are concatenated in place. If convolutions
    have windows, the chunks overlap, and the overlap is computed twice.

    The pass counts the bytes in use while the rOperators are executed in the order of the IR. It
    cuts chains whose chunks lower the highest peak of these bytes, until intermediates fit into
    ``memory`` bytes or no further chain lowers the peak.
    """

    name: ClassVar[str] = "rtask-pipeline"
    takes: ClassVar[Form | None] = Form.TENSORS

    chunks: int = 4
    memory: int = 0

    def check_options(self) -> None:
        """Raise an OptionError if ``chunks`` is below 2 or ``memory`` is negative."""
        check_least(self, 2, "chunks")
        check_least(self, 0, "memory")

    def run(self, module: ir.Module) -> None:
        """Rewrite the entry function so that chains of rOperators are computed in chunks.

        The pass has to follow `rtask-form-operators`.
        """
        block, cut_functions = entry_block(module), CutFunctions(module)
        fixed: set[ir.Operation] = set()
        replaced: set[str] = set()
        for _ in range(_MOST_CHAINS):
            read = read_steps(block)
            if read.steps.peak <= self.memory:
                break
            chains = ChunkedChains(block, cut_functions, fixed)
            chain = choose_chain(read, chains, self.chunks, self.memory)
            if chain is None:
                break
            replaced |= {name for op in chain.operators for name in kernel_names(op)}
            fixed.update(*emit_chunks(chain, cut_functions))
        erase_uncalled(module, replaced)
