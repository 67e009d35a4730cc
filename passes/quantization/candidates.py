"""Adds quantized copies of regions, to be accepted or refused later by their accuracy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.constants import CONSTANT, VALUE, ArgumentList
from rammer_mlir.passes.ir.entry import CODEGEN, COMPOSITE, entry_function, functions, symbol_name
from rammer_mlir.passes.ir.function_type import update_function_type
from rammer_mlir.passes.quantization.region_calls import (
    RegionCall,
    body_of,
    call_of,
    cloned_function,
    inline_composites,
    name_function,
)
from rammer_mlir.passes.quantization.rewrite import FactorRanges, Precision, RegionRewrite
from rammer_mlir.passes.quantization.taps import Array, weights_of_call
from rammer_mlir.passes.regions.reading import Reading
from rammer_mlir.passes.regions.units import units_of


@dataclass(frozen=True)
class Candidate:
    """A call of an f32 region, and a call of its quantized copy, one of which will be erased.

    Attributes:
        call: the call of the f32 region.
        made: the call of the quantized region, with results of the same types.
        function: the function of the quantized region; calls of equal regions share it.
    """

    call: RegionCall
    made: ir.Operation
    function: ir.OpView

    def changed_readings(self) -> Iterator[Reading | str]:
        """Yield the recognized operations of the quantized region that are not entirely in f32.

        A recognized operation (``Reading``), such as a convolution, is yielded if an input or the
        output is not of type f32. For an unrecognized IR operation, yield the operation's name
        instead, if any of its operands or results is not of type f32.
        """
        for unit in units_of(body_of(self.function), {}):
            if not unit.readings and not _is_f32(unit.root):
                yield unit.root.name
            for reading in unit.readings:
                if any(o.element_type != "f32" for o in (*reading.inputs, reading.output)):
                    yield reading

    def accept(self) -> None:
        """Use the results of the quantized region, and erase the call of the f32 region."""
        for old, new in zip(self.call.op.results, self.made.results, strict=True):
            old.replace_all_uses_with(new)
        self.call.op.erase()

    def refuse(self) -> None:
        """Erase the call of the quantized region and keep the f32 region."""
        self.made.erase()


def _is_f32(op: ir.Operation) -> bool:
    kinds = (value.type for value in (*op.operands, *op.results))
    return all("f32" in str(kind) for kind in kinds)


def add_candidates(
    module: ir.Module,
    calls: Sequence[tuple[RegionCall, Sequence[FactorRanges]]],
    precision: Precision,
    arrays: Mapping[int, Array],
) -> list[Candidate]:
    """Emit a call of a quantized region before each call of a region; return the candidates.

    The new call passes the operands of the old call that the quantized region still uses, and the
    quantized weights.

    Args:
        module: the module whose entry function gets the quantized weights as constants.
        calls: pairs of a call of a region, and the value ranges of the two factors of each
            contraction of the region.
        precision: the precision of the quantized regions.
        arrays: the weights by index of the entry function's argument.
    """
    arguments = ArgumentList(entry_function(module))
    maker = _Maker(module, precision, arrays, _Constants(arguments))
    found = [maker.make(call, ranges) for call, ranges in calls]
    arguments.finish()
    return found


@dataclass
class _Constants:
    """Constants of quantized regions; equal constants share an argument of the entry function.

    ``arguments`` is the entry function's argument list; ``known`` maps the type and the bytes of a
    constant to its argument.
    """

    arguments: ArgumentList
    known: dict[tuple[str, bytes], ir.Value] = field(
        default_factory=dict["tuple[str, bytes]", "ir.Value"]
    )

    def add(self, kind: ir.Type, array: Array) -> ir.Value:
        """Return the argument of the entry function that has type ``kind`` and the value ``array``.

        If there is none, append an argument.
        """
        key = str(kind), array.tobytes()
        if key not in self.known:
            attributes = {
                CONSTANT: ir.StringAttr.get(f"quantized.{len(self.known)}"),
                VALUE: ir.DenseElementsAttr.get(array, type=None if array.shape else kind),
            }
            self.known[key] = self.arguments.add(kind, attributes)
        return self.known[key]


@dataclass
class _Maker:
    """The builder of quantized regions; equal regions share a function.

    Attributes:
        module: the module, which is changed.
        precision: the number formats of the quantized contractions.
        arrays: the weights by index of the entry function's argument.
        constants: the constants of quantized regions.
        known: the functions of quantized regions, by their text in MLIR's syntax.
    """

    module: ir.Module
    precision: Precision
    arrays: Mapping[int, Array]
    constants: _Constants
    known: dict[str, ir.OpView] = field(default_factory=dict[str, "ir.OpView"])

    def make(self, call: RegionCall, ranges: Sequence[FactorRanges]) -> Candidate:
        """Emit a call of a quantized region before the call of the f32 region.

        Return the candidate that consists of both calls. ``ranges`` lists the ranges of the factors
        of each contraction in order.
        """
        function = cloned_function(call.function)
        inline_composites(self.module, function)
        block = body_of(function)
        rewrite = RegionRewrite(
            block, self.precision, weights_of_call(call.op, self.arrays), ranges
        )
        rewrite.run()
        added = (self.constants.add(each.value.type, each.array) for each in rewrite.added)
        operands = _without_unused(block, [*call.op.operands, *added])
        update_function_type(function.operation)
        shared = self._shared(function, f"{call.region}_{self.precision.bits}bit")
        return Candidate(call, call_of(shared, operands, call.op), shared)

    def _shared(self, function: ir.OpView, name: str) -> ir.OpView:
        """Return an existing function equal to ``function`` and erase ``function``.

        If there is none, give ``function`` a name that begins with ``name``, and return it.
        """
        text = function.operation.get_asm(enable_debug_info=False, use_local_scope=True)
        known = self.known.setdefault(text, function)
        if known is function:
            name_function(self.module, function, name)
        else:
            function.operation.erase()
        return known


def _without_unused(block: ir.Block, operands: Sequence[ir.Value]) -> list[ir.Value]:
    """Erase a function's unused arguments, and return the operands that a call still has to pass.

    ``operands`` has a call's operand for each old argument.
    """
    used = [any(True for _ in argument.uses) for argument in block.arguments]
    for number in reversed([n for n, is_used in enumerate(used) if not is_used]):
        block.erase_argument(number)
    return [value for value, is_used in zip(operands, used, strict=True) if is_used]


def erase_uncalled(module: ir.Module) -> None:
    """Erase uncalled functions of regions and composites, and weights without uses."""
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
