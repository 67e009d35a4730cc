"""Creates functions that compute only parts of the results of an rOperator's function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rammer_mlir.bindings import ir, tensor
from rammer_mlir.passes.fusion.grouping import is_cloned
from rammer_mlir.passes.ir.cloning import ValueMap, clone_into, rename_operands
from rammer_mlir.passes.ir.entry import CODEGEN, COMPOSITE, functions, symbol_name
from rammer_mlir.passes.ir.outline import Outliner, clone_constants
from rammer_mlir.passes.ir.structured import Structured, captured_values, is_generic
from rammer_mlir.passes.memory.cut_emission import emit_part, part_type, result_cuts
from rammer_mlir.passes.memory.operand_parts import Cut, Needed, operand_cuts

Parts = tuple[Cut | None, ...]
"""The part to compute of each result of a function or operation; None for an unused result."""


@dataclass
class CutFunctions:
    """Creates and memoizes functions that compute only parts of the results of existing functions.

    ``module`` contains the existing and the new functions.
    """

    module: ir.Module
    _known: dict[tuple[str, Parts], Needed | None] = field(
        default_factory=dict[tuple[str, "Parts"], "Needed | None"]
    )
    _made: dict[tuple[str, Parts], str] = field(default_factory=dict[tuple[str, "Parts"], str])

    def __post_init__(self) -> None:
        """Index the module's functions by name."""
        self._outliner = Outliner(self.module)
        self._functions = {symbol_name(f): f for f in functions(self.module)}

    def argument_cuts(self, name: str, parts: Parts) -> Needed | None:
        """Return the part of each argument that a function needs for ``parts`` of its results.

        ``name`` is the name of the function. ``parts`` lists the part of each result, None for a
        result that is not computed. In the returned sequence, None stands for a whole argument.
        Return None if the parts cannot be computed separately.
        """
        key = (name, parts)
        if key not in self._known:
            self._known[key] = self._argument_cuts(name, parts)
        return self._known[key]

    def _argument_cuts(self, name: str, parts: Parts) -> Needed | None:
        attributes = self._functions[name].operation.attributes
        block = _body(self._functions[name])
        if block is None or CODEGEN in attributes or COMPOSITE in attributes:
            return None
        *operations, end = block.operations
        wanted: dict[ir.Value, set[Cut | None]] = {}
        for value, cut in zip(end.operation.operands, parts, strict=True):
            if isinstance(value.owner, ir.Block):
                return None
            if cut is not None:
                wanted.setdefault(value, set()).add(cut)
        return _argument_parts(block, operations, wanted)

    def part(self, name: str, parts: Parts) -> str:
        """Return the name of a function that computes parts of the results of function ``name``.

        ``parts`` lists the part of each result, None for a result that is not computed. The new
        function is created unless an equal function exists.
        """
        key = (name, parts)
        if key not in self._made:
            self._made[key] = self._part(name, parts)
        return self._made[key]

    def _part(self, name: str, parts: Parts) -> str:
        block = _body(self._functions[name])
        needed = self.argument_cuts(name, parts)
        assert block is not None and needed is not None
        arguments = list(block.arguments)
        types = [
            value.type if part is None else part_type(value, part)
            for value, part in zip(arguments, needed, strict=True)
        ]
        returned = list(list(block.operations)[-1].operation.operands)

        def body(given: Sequence[ir.Value]) -> list[ir.Value]:
            emitter = _Emitter(dict(zip(arguments, given, strict=True)))
            found = zip(returned, parts, strict=True)
            return [emitter.part(value, cut) for value, cut in found if cut is not None]

        part = self._outliner.function(f"{name}_part", types, body)
        if part not in self._functions:
            self._functions = {symbol_name(f): f for f in functions(self.module)}
        return part

    def has_run_time_product(self, name: str, known: Sequence[bool]) -> bool:
        """Whether function ``name`` contracts two values that are both known only at run time.

        ``known`` tells for each argument whether its value is known at compile time.
        """
        block = _body(self._functions[name])
        if block is None:
            return False
        changing = {
            ir.Value(v) for v, fixed in zip(block.arguments, known, strict=True) if not fixed
        }
        for op in block.operations:
            if is_generic(op) and (structured := Structured(op)).is_contraction:
                if sum(value in changing for value in structured.inputs) > 1:
                    return True
            if any(value in changing for value in (*op.operands, *captured_values(op))):
                changing.update(ir.Value(result) for result in op.results)
        return False


def _body(function: ir.OpView) -> ir.Block | None:
    blocks = list(function.operation.regions[0].blocks)
    return blocks[0] if blocks else None


def _argument_parts(
    block: ir.Block, operations: Sequence[ir.OpView], wanted: dict[ir.Value, set[Cut | None]]
) -> Needed | None:
    """Return the part of each argument of a block that is needed to compute parts of values.

    ``wanted`` maps each value to the parts of it that are needed; the needed parts of the operands
    of ``operations`` are added. Return None in these cases:

    - a result of an operation is needed as a whole, or a part of it cannot be computed separately;
    - the needed parts of an operation's results require different parts of the same operand;
    - an argument is needed in several different parts.
    """
    for op in reversed(operations):
        parts = [
            (number, part)
            for number, result in enumerate(op.operation.results)
            for part in wanted.get(result, ())
        ]
        if is_cloned(op):
            if not all(_can_cut_clone(op, n, part) for n, part in parts if part is not None):
                return None
            continue
        if not parts:
            continue
        needs = {None if part is None else _hashed(op, n, part) for n, part in parts}
        # All requested parts of the results must agree on the parts of the operands.
        if None in needs or len(needs) != 1:
            return None
        (needed,) = needs
        assert needed is not None
        for value, part in zip(op.operation.operands, needed, strict=True):
            wanted.setdefault(value, set()).add(part)
        for value in captured_values(op):
            wanted.setdefault(value, set()).add(None)
    found = [wanted.get(argument, {None}) for argument in block.arguments]
    if any(len(parts) != 1 for parts in found):
        return None
    return [part for parts in found for part in parts]


def _hashed(op: ir.OpView, number: int, cut: Cut) -> tuple[Cut | None, ...] | None:
    needed = operand_cuts(op, number, cut)
    return None if needed is None else tuple(needed)


def _can_cut_clone(op: ir.OpView, number: int, cut: Cut) -> bool:
    """Whether a clone of ``op`` can compute only the part ``cut`` of result ``number``.

    ``op`` is an operation that is cloned for each user, such as a constant. This is possible for an
    empty tensor, a fill and a splat constant, but not for a tensor of indices along the cut
    dimension.
    """
    if op.operation.name == "tensor.empty":
        return True
    if is_generic(op):
        return operand_cuts(op, number, cut) is not None
    value = op.operation.attributes["value"] if op.operation.name == "arith.constant" else None
    return isinstance(value, ir.DenseElementsAttr) and value.is_splat


@dataclass
class _Emitter:
    """Emits operations that compute parts of a function's values at the current insertion point.

    Emitted parts are memoized by value and part. ``arguments`` maps each argument of the old
    function to the new function's argument, which is passed only the needed part.
    """

    arguments: ValueMap
    _parts: dict[tuple[ir.Value, Cut], ir.Value] = field(
        default_factory=dict[tuple[ir.Value, Cut], ir.Value]
    )
    _wholes: ValueMap = field(default_factory=dict[ir.Value, ir.Value])

    def part(self, value: ir.Value, cut: Cut | None) -> ir.Value:
        if isinstance(value.owner, ir.Block):
            return self.arguments[value]
        if cut is None:
            clone_constants(value, self._wholes, ir.InsertionPoint.current)
            return self._wholes[value]
        if (value, cut) not in self._parts:
            self._emit(value.owner.opview, ir.OpResult(value).result_number, cut)
        return self._parts[value, cut]

    def _emit(self, op: ir.OpView, number: int, cut: Cut) -> None:
        value = op.operation.results[number]
        name = op.operation.name
        if name == "tensor.empty":
            kind = ir.RankedTensorType(part_type(value, cut))
            self._parts[value, cut] = tensor.EmptyOp(list(kind.shape), kind.element_type).result
            return
        if name == "arith.constant":
            copy = clone_into(op, {}, ir.InsertionPoint.current)
            splat = ir.DenseElementsAttr(copy.attributes["value"]).get_splat_value()
            kind = part_type(value, cut)
            copy.attributes["value"] = ir.DenseElementsAttr.get_splat(kind, splat)
            copy.results[0].set_type(kind)
            self._parts[value, cut] = copy.results[0]
            return
        needed = operand_cuts(op, number, cut)
        assert needed is not None
        operands = [self.part(v, c) for v, c in zip(op.operation.operands, needed, strict=True)]
        captured = {v: self.part(v, None) for v in captured_values(op)}
        copy = emit_part(op, number, cut, operands, ir.InsertionPoint.current)
        rename_operands(copy, captured)
        for result, (old, part) in enumerate(
            zip(op.operation.results, result_cuts(op, number, cut), strict=True)
        ):
            self._parts[old, part] = copy.results[result]
