"""Emits the operations that compute a chain of rOperators chunk by chunk.

A chunk is the computation of a part of the chain's results, with the intermediates that it needs.
"""

from __future__ import annotations

from rammer_mlir.bindings import ir, tensor
from rammer_mlir.passes.fusion.grouping import OPERATOR
from rammer_mlir.passes.ir.entry import callers, functions, symbol_name
from rammer_mlir.passes.ir.outline import create_operator
from rammer_mlir.passes.memory.chunked_chains import Chunk, ChunkedChain
from rammer_mlir.passes.memory.cut_emission import emit_part, part_type, slice_of
from rammer_mlir.passes.memory.cut_functions import CutFunctions
from rammer_mlir.passes.memory.operand_parts import Cut
from rammer_mlir.passes.memory.operator_steps import kernel_names


def emit_chunks(chain: ChunkedChain, cut_functions: CutFunctions) -> list[set[ir.Operation]]:
    """Replace a chain's operations by operations for each chunk of it, and join the results.

    Return the new operations: one set for each chunk, and after them a set with the concatenations
    that join the chunks' results.
    """
    sink = chain.nodes[0]
    made: list[set[ir.Operation]] = []
    joins: set[ir.Operation] = set()
    slices: dict[tuple[ir.Value, Cut], ir.Value] = {}
    ends: list[dict[ir.Value, ir.Value]] = []
    with ir.InsertionPoint(sink), sink.location:
        for chunk in chain.chunks:
            made.append(set())
            ends.append(_emit_chunk(chain, chunk, cut_functions, slices, made[-1]))
        for result, cut in zip(sink.results, chain.chunks[0].parts[0], strict=True):
            if cut is not None:
                joined = tensor.ConcatOp(result.type, cut.axis, [end[result] for end in ends])
                joins.add(joined.operation)
                result.replace_all_uses_with(joined.result)
    for node in chain.nodes:
        node.operation.erase()
    return [*made, joins]


def _emit_chunk(
    chain: ChunkedChain,
    chunk: Chunk,
    cut_functions: CutFunctions,
    slices: dict[tuple[ir.Value, Cut], ir.Value],
    made: set[ir.Operation],
) -> dict[ir.Value, ir.Value]:
    """Emit the operations of a chunk; return the chunk's part of each result of the chain.

    The dictionary has a key for each used result of the last rOperator of ``chain``; the value is
    the emitted part of this result.

    ``slices`` memoizes slices of values from outside of the chain. Emitted operations are added to
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


def erase_uncalled(module: ir.Module, names: set[str]) -> None:
    """Erase each function in ``names`` that no rOperator calls."""
    called = callers(module)
    for function in list(functions(module)):
        name = symbol_name(function)
        if name in names and name not in called:
            function.operation.erase()
