"""Quantized regions beside those of f32, until it is known how well each computes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.constants import CONSTANT, VALUE, ArgumentList
from rammer_mlir.passes.ir.entry import CODEGEN, COMPOSITE, entry_function, functions, symbol_name
from rammer_mlir.passes.ir.function_type import update_function_type
from rammer_mlir.passes.quantization.contractions import contractions_of
from rammer_mlir.passes.quantization.region_calls import (
    RegionCall,
    body_of,
    call_of,
    cloned_function,
    inline_composites,
)
from rammer_mlir.passes.quantization.rewrite import FactorRanges, Precision, RegionRewrite
from rammer_mlir.passes.quantization.taps import Array, weights_of_call
from rammer_mlir.passes.regions.reading import Reading
from rammer_mlir.passes.regions.units import units_of


@dataclass(frozen=True)
class Candidate:
    """A quantized region.

    Attributes:
        call: of the region of f32.
        made: of the quantized one, with the same results.
        function: the quantized one.
    """

    call: RegionCall
    made: ir.Operation
    function: ir.OpView

    def changed_readings(self) -> Iterator[Reading | str]:
        """Yield operations that are not of f32 alone; those without a reading by their names."""
        for unit in units_of(body_of(self.function), {}):
            if not unit.readings and not _is_f32(unit.root):
                yield unit.root.name
            for reading in unit.readings:
                if any(o.element_type != "f32" for o in (*reading.inputs, reading.output)):
                    yield reading

    def accept(self) -> None:
        """Let the program compute the quantized region."""
        for old, new in zip(self.call.op.results, self.made.results, strict=True):
            old.replace_all_uses_with(new)
        self.call.op.erase()

    def refuse(self) -> None:
        """Let the program compute the region of f32."""
        self.made.erase()
        self.function.operation.erase()


def _is_f32(op: ir.Operation) -> bool:
    kinds = (value.type for value in (*op.operands, *op.results))
    return all("f32" in str(kind) for kind in kinds)


def num_contractions(module: ir.Module, call: RegionCall) -> int:
    """Count the contractions of f32 in a region, those of its composites among them."""
    blocks = [body_of(call.function)]
    known = {symbol_name(each): each for each in functions(module)}
    for op in blocks[0].operations:
        if op.operation.name == "func.call":
            callee = ir.FlatSymbolRefAttr(op.operation.attributes["callee"]).value
            blocks.append(body_of(known[callee]))
    return sum(1 for block in blocks for _ in contractions_of(block))


def add_candidates(
    module: ir.Module,
    calls: Sequence[tuple[RegionCall, Sequence[FactorRanges]]],
    precision: Precision,
    arrays: Mapping[int, Array],
) -> list[Candidate]:
    """Add a quantized region beside each of these, called with the same values.

    Args:
        module: whose entry function gets the quantized weights as constants.
        calls: of regions, with the ranges of their factors.
        precision: of the quantized regions.
        arrays: the weights by the entry function's argument numbers.
    """
    arguments = ArgumentList(entry_function(module))
    found = [
        _add_candidate(module, call, ranges, precision, arrays, arguments) for call, ranges in calls
    ]
    arguments.finish()
    return found


def _add_candidate(
    module: ir.Module,
    call: RegionCall,
    ranges: Sequence[FactorRanges],
    precision: Precision,
    arrays: Mapping[int, Array],
    arguments: ArgumentList,
) -> Candidate:
    function = cloned_function(module, call.function, f"{call.region}_{precision.bits}bit")
    inline_composites(module, function)
    block = body_of(function)
    rewrite = RegionRewrite(block, precision, weights_of_call(call.op, arrays), ranges)
    rewrite.run()
    operands = [*call.op.operands, *_new_weights(symbol_name(function), rewrite, arguments)]
    used = [any(True for _ in argument.uses) for argument in block.arguments]
    for number in reversed([n for n, is_used in enumerate(used) if not is_used]):
        block.erase_argument(number)
    update_function_type(function.operation)
    kept = [value for value, is_used in zip(operands, used, strict=True) if is_used]
    return Candidate(call, call_of(function, kept, call.op), function)


def _new_weights(
    region: str, rewrite: RegionRewrite, arguments: ArgumentList
) -> Iterator[ir.Value]:
    """Add the constants of a rewritten region to the entry function."""
    for number, weight in enumerate(rewrite.added):
        attributes = {
            CONSTANT: ir.StringAttr.get(f"{region}.{number}"),
            VALUE: ir.DenseElementsAttr.get(weight.array),
        }
        yield arguments.add(weight.value.type, attributes)


def erase_uncalled(module: ir.Module) -> None:
    """Erase regions and composites that nothing calls any more, and weights that nothing reads."""
    while True:
        called = {
            ir.FlatSymbolRefAttr(op.operation.attributes["callee"]).value
            for function in functions(module)
            for op in body_of(function).operations
            if op.operation.name == "func.call"
        }
        unused = [
            each
            for each in functions(module)
            if (CODEGEN in each.operation.attributes or COMPOSITE in each.operation.attributes)
            and symbol_name(each) not in called
        ]
        for each in unused:
            each.operation.erase()
        if not unused:
            break
    ArgumentList(entry_function(module)).finish()
