"""Describes contractions, and finds the chains of elementwise operations on their results."""

from __future__ import annotations

from dataclasses import dataclass

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.structured import (
    Structured,
    is_constant,
    is_generic,
    shape_of,
)
from rammer_mlir.passes.weights.derived import DerivedWeights

Terms = dict[int, int]
"""The coefficients of a linear index expression, by the index of the loop dimension."""


@dataclass(frozen=True)
class Contraction:
    """A contraction with weights, and the elementwise operations on its result.

    Attributes:
        op: the ``linalg.generic`` of the contraction.
        chain: the elementwise operations that follow, each the only reader of its predecessor.
    """

    op: ir.OpView
    chain: tuple[ir.OpView, ...]

    @property
    def result(self) -> ir.Value:
        """The result of the last elementwise operation, or of the contraction if none follows."""
        last = self.chain[-1] if self.chain else self.op
        return last.operation.results[0]

    @property
    def kind(self) -> object:
        """A key that is equal for contractions with equal element types and equal chains.

        Chains are equal if their operations have equal maps and bodies; their weights may differ.
        """
        element = str(ir.RankedTensorType(self.result.type).element_type)
        return element, tuple(body_key(op) for op in self.chain)


def multiplies_and_adds(op: ir.OpView) -> bool:
    """Whether the body of an operation adds the product of two inputs to its destination."""
    nest = Structured(op)
    body = [inner.operation for inner in nest.body]
    if [inner.name for inner in body] != ["arith.mulf", "arith.addf"]:
        return False
    product, total = body
    *inputs, destination = nest.arguments
    factors, terms = set(product.operands), set(total.operands)
    is_sum = terms == {product.results[0], destination} and nest.yielded == list(total.results)
    return is_sum and len(factors) == 2 and factors <= set(inputs)


def terms_of(expr: ir.AffineExpr) -> Terms | None:
    """Return the coefficient of each loop dimension in a linear index expression.

    The keys are the indices of the loop dimensions: ``2 * d0 + d3`` gives ``{0: 2, 3: 1}``. Return
    None for any other expression, such as a constant.
    """
    if isinstance(expr, ir.AffineDimExpr):
        return {expr.position: 1}
    if isinstance(expr, ir.AffineMulExpr):
        sides = (expr.lhs, expr.rhs)
        dims = [side for side in sides if isinstance(side, ir.AffineDimExpr)]
        factors = [side for side in sides if isinstance(side, ir.AffineConstantExpr)]
        return {dims[0].position: factors[0].value} if dims and factors else None
    if isinstance(expr, ir.AffineAddExpr):
        left, right = terms_of(expr.lhs), terms_of(expr.rhs)
        return None if left is None or right is None else {**left, **right}
    return None


def following_steps(op: ir.OpView, weights: DerivedWeights) -> tuple[ir.OpView, ...]:
    """Return the chain of elementwise operations on the result of ``op``, in order.

    Each operation is the only reader of its predecessor's result. Its other inputs are weights with
    one element for each channel (dimension 1 of the result).
    """
    found: list[ir.OpView] = []
    while True:
        result = op.operation.results[0]
        uses = list(result.uses)
        if len(uses) != 1 or not is_generic(uses[0].owner.operation.opview):
            return tuple(found)
        op = uses[0].owner.operation.opview
        if not _is_step(Structured(op), result, weights):
            return tuple(found)
        found.append(op)


def _is_step(reading: Structured, source: ir.Value, weights: DerivedWeights) -> bool:
    if not reading.is_elementwise or reading.num_outputs != 1 or reading.uses_index:
        return False
    # The chain is emitted before the contraction: captured values must be defined there.
    if any(not is_constant(v) and not isinstance(v.owner, ir.Block) for v in reading.captures):
        return False
    maps = [[terms_of(expr) for expr in map_.results] for map_ in reading.maps]
    whole = [{dim: 1} for dim in range(len(shape_of(source)))]
    for value, map_ in zip(reading.inputs, maps, strict=False):
        by_channel = value in weights and map_ == [{1: 1}]
        if not (value == source and map_ == whole) and not by_channel:
            return False
    return maps[-1] == whole and not reading.reads_output(0)


def body_key(op: ir.OpView) -> object:
    """Return a hashable key of a ``linalg.generic``'s indexing maps and body.

    Two generics with equal keys compute the same function of their operands.
    """
    maps = str(op.operation.attributes["indexing_maps"])
    return maps, _block_key(op.operation.regions[0].blocks[0], {})


def _block_key(block: ir.Block, names: dict[ir.Value, int]) -> object:
    """Return a hashable key of a block's operations, including those of nested regions.

    ``names`` has the number of each value that is known so far; the values of the block are added.
    A value from outside of the generic, which has no number, is a part of the key itself.
    """
    names.update((value, number) for number, value in enumerate(block.arguments, len(names)))
    key: list[object] = [tuple(str(argument.type) for argument in block.arguments)]
    for inner in block.operations:
        operation = inner.operation
        attributes = tuple((name, str(operation.attributes[name])) for name in operation.attributes)
        operands = tuple(names.get(operand, operand) for operand in operation.operands)
        regions = tuple(_block_key(each, names) for region in operation.regions for each in region)
        kinds = tuple(str(result.type) for result in operation.results)
        key.append((operation.name, attributes, operands, regions, kinds))
        names.update((value, number) for number, value in enumerate(operation.results, len(names)))
    return tuple(key)
