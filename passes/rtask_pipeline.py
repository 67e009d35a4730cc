"""`rtask-pipeline`: chains of rOperators are computed in chunks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir, tensor
from rammer_mlir.passes.base import Form, Pass, check_least
from rammer_mlir.passes.fusion.grouping import OPERATOR
from rammer_mlir.passes.ir.entry import callers, entry_block, functions, symbol_name
from rammer_mlir.passes.ir.outline import create_operator
from rammer_mlir.passes.memory.chunked_chains import Chunk, ChunkedChain, ChunkedChains
from rammer_mlir.passes.memory.chunking import choose_chain
from rammer_mlir.passes.memory.cut_emission import emit_part, part_type, slice_of
from rammer_mlir.passes.memory.cut_functions import CutFunctions
from rammer_mlir.passes.memory.operand_parts import Cut
from rammer_mlir.passes.memory.operator_steps import kernel_names, read_steps

_MOST_CHAINS = 64
"""Maximum number of chains of rOperators that are computed in chunks, in a model."""


@dataclass(frozen=True)
class Pipeline(Pass):
    """Compute chains of rOperators in ``chunks``, so that their intermediates need less memory.

    A chain is cut along a dimension that is a parallel loop of each of its rOperators; parts of the
    last result are concatenated in place. Windows of convolutions make the parts overlap, and the
    overlap is computed twice. Chains are chosen to lower the memory in use in the order of the
    rOperators, from the highest peak on, until intermediates fit into ``memory`` bytes.
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
        """Compute chains of the entry function in chunks; run after `rtask-form-operators`."""
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
            fixed |= _emit(chain, cut_functions)
        _erase_uncalled(module, replaced)


def _emit(chain: ChunkedChain, cut_functions: CutFunctions) -> set[ir.Operation]:
    """Replace the operations of ``chain`` by its chunks and concatenations of their results.

    Return the new operations.
    """
    sink = chain.nodes[0]
    made: set[ir.Operation] = set()
    slices: dict[tuple[ir.Value, Cut], ir.Value] = {}
    with ir.InsertionPoint(sink), sink.location:
        ends = [_emit_chunk(chain, chunk, cut_functions, slices, made) for chunk in chain.chunks]
        for result, cut in zip(sink.results, chain.chunks[0].parts[0], strict=True):
            if cut is not None:
                joined = tensor.ConcatOp(result.type, cut.axis, [end[result] for end in ends])
                made.add(joined.operation)
                result.replace_all_uses_with(joined.result)
    for node in chain.nodes:
        node.operation.erase()
    return made


def _emit_chunk(
    chain: ChunkedChain,
    chunk: Chunk,
    cut_functions: CutFunctions,
    slices: dict[tuple[ir.Value, Cut], ir.Value],
    made: set[ir.Operation],
) -> dict[ir.Value, ir.Value]:
    """Emit the operations of a chunk; return the part of each used result that it computes.

    A key is a result of the last rOperator of ``chain``, the value is the emitted part.

    ``slices`` memoizes slices of values from outside of the chain; emitted operations are added to
    ``made``.
    """
    parts: dict[ir.Value, tuple[ir.Value, Cut]] = {}

    def part_of(value: ir.Value, cut: Cut | None) -> ir.Value:
        if value in parts:
            whole, of = parts[value]
            assert cut is not None, "values of a chain are never read whole"
            return slice_of(whole, Cut(cut.axis, cut.begin - of.begin, cut.end - of.begin))
        if cut is None:
            return value
        if (value, cut) not in slices:
            slices[value, cut] = slice_of(value, cut)
        return slices[value, cut]

    for number in reversed(range(len(chain.nodes))):
        node, cuts = chain.nodes[number], chunk.parts[number]
        needed = chunk.needed[number]
        operands = [part_of(v, c) for v, c in zip(node.operation.operands, needed, strict=True)]
        ip = ir.InsertionPoint.current
        used = [(r, c) for r, c in zip(node.results, cuts, strict=True) if c is not None]
        if node.operation.name == OPERATOR:
            function = cut_functions.part(kernel_names(node)[0], cuts)
            kinds = [part_type(result, cut) for result, cut in used]
            copy = create_operator(function, operands, kinds, node.location, ip)
        else:
            copy = emit_part(node, 0, used[0][1], operands, ip)
        made.add(copy)
        for (result, cut), new in zip(used, copy.results, strict=True):
            parts[result] = new, cut
    sink = chain.nodes[0]
    return {result: parts[result][0] for result in sink.results if result in parts}


def _erase_uncalled(module: ir.Module, names: set[str]) -> None:
    called = callers(module)
    for function in list(functions(module)):
        name = symbol_name(function)
        if name in names and name not in called:
            function.operation.erase()
