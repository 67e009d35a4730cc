"""Reads properties of a ``linalg.generic``, such as its loops, indexing maps, body and cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import NamedTuple, TypeAlias, TypeGuard

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.boxes import loops_in

Buffer: TypeAlias = "ir.Value[ir.MemRefType]"
"""A memref value."""


_PRODUCTS = ["arith.addf", "arith.mulf"]
"""Names of the operations of a sum of products, sorted."""


def is_buffer(value: ir.Value) -> TypeGuard[Buffer]:
    """Whether a value is a memref."""
    return isinstance(value.type, ir.MemRefType)


def as_buffer(value: ir.Value) -> Buffer:
    """Return ``value`` unchanged, with the type ``Buffer``; an assertion fails for other types."""
    assert is_buffer(value), f"expected a memref, found {value.type}"
    return value


def is_generic(op: ir.OpView) -> bool:
    """Whether the op is a ``linalg.generic``."""
    return op.operation.name == "linalg.generic"


def plain_dim(expr: ir.AffineExpr) -> int | None:
    """Return the loop's index if ``expr`` is a single loop dimension such as ``d1``; else None."""
    return expr.position if isinstance(expr, ir.AffineDimExpr) else None


def is_constant(value: ir.Value) -> bool:
    """Whether a value is the result of an ``arith.constant``."""
    return not isinstance(value.owner, ir.Block) and value.owner.name == "arith.constant"


def constant_value(value: ir.Value) -> float | None:
    """Return the number of an ``arith.constant`` of floats; None for any other value."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.constant":
        return None
    attribute = owner.attributes["value"]
    return ir.FloatAttr(attribute).value if isinstance(attribute, ir.FloatAttr) else None


def captured_values(op: ir.OpView) -> list[ir.Value]:
    """Return the values that an op's regions use but do not define, in order of first use."""
    captured: dict[ir.Value, None] = {}
    inside: set[ir.Value] = set()
    for region in op.operation.regions:
        for block in region.blocks:
            _collect_captures(block, inside, captured)
    return list(captured)


def _collect_captures(
    block: ir.Block, inside: set[ir.Value], captured: dict[ir.Value, None]
) -> None:
    inside.update(block.arguments)
    for inner in block.operations:
        for operand in inner.operation.operands:
            if operand not in inside:
                captured[operand] = None
        for region in inner.operation.regions:
            for nested in region.blocks:
                _collect_captures(nested, inside, captured)
        inside.update(inner.operation.results)


def body_operations(op: ir.OpView) -> Iterator[ir.OpView]:
    """Yield the operations of a generic's body without its terminator."""
    operations = list(op.operation.regions[0].blocks[0].operations)
    yield from operations[:-1]


class LoopDimension(NamedTuple):
    """A dimension of an operand that a single loop indexes.

    Attributes:
        loop: the index of the loop.
        operand: the index of the operand.
        value: the operand.
        dimension: the index of the dimension.
        size: the size of the dimension in elements, which is the loop's trip count.
    """

    loop: int
    operand: int
    value: ir.Value
    dimension: int
    size: int

    @property
    def is_static(self) -> bool:
        """Whether the size is known at compile time."""
        return not ir.ShapedType.is_dynamic_size(self.size)


@dataclass(frozen=True)
class Structured:
    """A ``linalg.generic`` with its properties: loops, operands, body and cost.

    Properties are memoized: create a new object after a change to the operation.
    """

    op: ir.OpView

    @cached_property
    def captures(self) -> list[ir.Value]:
        """The values defined outside the body that operations of the body use."""
        return captured_values(self.op)

    @cached_property
    def maps(self) -> list[ir.AffineMap]:
        """The indexing maps of inputs, then of outputs."""
        maps = ir.ArrayAttr(self.op.operation.attributes["indexing_maps"])
        return [ir.AffineMapAttr(attr).value for attr in maps]

    @cached_property
    def parallel(self) -> list[bool]:
        """For each loop, True if it is parallel, False if it is a reduction."""
        kinds = str(self.op.operation.attributes["iterator_types"]).split(",")
        return ["parallel" in kind for kind in kinds if "iterator_type" in kind]

    @cached_property
    def parallel_loops(self) -> tuple[int, ...]:
        """The indices of the parallel loops."""
        return tuple(loop for loop, parallel in enumerate(self.parallel) if parallel)

    @cached_property
    def reduction_loops(self) -> tuple[int, ...]:
        """The indices of the reduction loops."""
        return tuple(loop for loop, parallel in enumerate(self.parallel) if not parallel)

    @cached_property
    def num_outputs(self) -> int:
        """The number of destination operands; on tensors, also the number of results."""
        return ir.DenseI32ArrayAttr(self.op.operation.attributes["operandSegmentSizes"])[1]

    @property
    def operands(self) -> list[ir.Value]:
        """All operands: inputs, then outputs."""
        return list(self.op.operation.operands)

    @property
    def inputs(self) -> list[ir.Value]:
        """The input operands."""
        return self.operands[: -self.num_outputs]

    @property
    def outputs(self) -> list[ir.Value]:
        """The destination operands."""
        return self.operands[-self.num_outputs :]

    @property
    def output_maps(self) -> list[ir.AffineMap]:
        """The indexing maps of the destination operands."""
        return self.maps[-self.num_outputs :]

    @cached_property
    def block(self) -> ir.Block:
        """The body's only block."""
        return self.op.operation.regions[0].blocks[0]

    @cached_property
    def arguments(self) -> list[ir.BlockArgument]:
        """The arguments of the body, one for each operand: an element of that operand."""
        return list(self.block.arguments)

    @cached_property
    def body(self) -> list[ir.OpView]:
        """The operations of the body without its terminator."""
        return list(body_operations(self.op))

    @cached_property
    def yielded(self) -> list[ir.Value]:
        """The values that the body yields, one for each output."""
        operations = self.block.operations
        return list(operations[len(operations) - 1].operation.operands)

    @cached_property
    def used_loops(self) -> list[tuple[int, ...]]:
        """For each operand, the indices of the loops that its indexing map depends on."""
        return [
            tuple(sorted(set[int]().union(*(loops_in(expr) for expr in map_.results))))
            for map_ in self.maps
        ]

    @cached_property
    def loop_dimensions(self) -> list[LoopDimension]:
        """All dimensions of operands that a single loop indexes."""
        return [
            LoopDimension(loop, operand, value, dimension, size)
            for operand, (map_, value) in enumerate(zip(self.maps, self.operands, strict=True))
            for dimension, (expr, size) in enumerate(
                zip(map_.results, shape_of(value), strict=True)
            )
            if (loop := plain_dim(expr)) is not None
        ]

    @cached_property
    def extent_sources(self) -> list[LoopDimension]:
        """For each loop, a dimension of an operand whose size is the loop's trip count.

        A static dimension is chosen if possible. Linalg's verifier guarantees that for each loop
        some dimension is indexed by that loop only.
        """
        found: dict[int, LoopDimension] = {}
        for source in self.loop_dimensions:
            if source.loop not in found or not found[source.loop].is_static:
                found[source.loop] = source
        return [found[loop] for loop in range(len(self.parallel))]

    @cached_property
    def extents(self) -> list[int]:
        """The trip count of each loop.

        A loop whose dimensions all have dynamic sizes has MLIR's ``ShapedType::kDynamic`` instead.
        """
        return [source.size for source in self.extent_sources]

    def result_dims(self, result: int) -> list[int] | None:
        """Return, for each dimension of result ``result``, the index of the loop that indexes it.

        Return None if a dimension's index expression is not a single loop.
        """
        return self.operand_dims(len(self.maps) - self.num_outputs + result)

    def operand_dims(self, number: int) -> list[int] | None:
        """Return, for each dimension of operand ``number``, the index of the loop that indexes it.

        Return None if a dimension's index expression is not a single loop.
        """
        dims = [plain_dim(expr) for expr in self.maps[number].results]
        return None if None in dims else [dim for dim in dims if dim is not None]

    def reads_input(self, position: int) -> bool:
        """Whether the body uses the elements of input ``position``.

        The result is False for an input that only defines the shape of a window, as in a pooling.
        """
        return any(True for _ in self.block.arguments[position].uses)

    def reads_output(self, result: int) -> bool:
        """Whether the body uses the old elements of the destination of result ``result``."""
        return self.reads_input(len(self.maps) - self.num_outputs + result)

    @cached_property
    def uses_index(self) -> bool:
        """Whether the body uses ``linalg.index``."""
        return any(inner.operation.name == "linalg.index" for inner in self.body)

    @cached_property
    def is_elementwise(self) -> bool:
        """Whether every loop is parallel."""
        return all(self.parallel)

    @cached_property
    def permutation(self) -> list[int] | None:
        """For each dimension of the result, the dimension of the input that is copied to it.

        None if the operation is not a copy with permuted dimensions.
        """
        if not self.is_elementwise or len(self.maps) != 2 or self.body:
            return None
        source, target = self.operand_dims(0), self.operand_dims(1)
        if source is None or target is None or sorted(source) != sorted(target):
            return None
        is_copy = self.yielded[0] == self.arguments[0]
        return [source.index(dim) for dim in target] if is_copy else None

    @cached_property
    def is_contraction(self) -> bool:
        """Whether the operation sums products of elements of tensors, as a matrix product does.

        Products with elements of an ``arith.constant`` do not count: an operation that sums such
        products is no contraction (see ``is_transform``).
        """
        if self.is_elementwise:
            return False
        reads = sum(
            1
            for map_, value in zip(self.maps, self.inputs, strict=False)
            if map_.n_dims and len(map_.results) and not is_constant(value)
        )
        names = {inner.operation.name for inner in self.body}
        return reads >= 2 and bool(names & {"arith.mulf", "arith.muli"})

    @cached_property
    def matrix_element(self) -> str:
        """The element type of the two factors, if the operation sums their products in f32.

        The element type is f16, bf16 or f32. The result is an empty string for all other
        operations. Matrix instructions can compute such sums.
        """
        operations = [op.operation for op in self.body]
        names = sorted(op.name for op in operations)
        *inputs, accumulator = self.arguments
        if names not in (_PRODUCTS, [*_PRODUCTS[:1], "arith.extf", "arith.extf", *_PRODUCTS[1:]]):
            return ""
        if len(inputs) != 2 or self.is_elementwise or not isinstance(accumulator.type, ir.F32Type):
            return ""
        kinds = {str(argument.type) for argument in inputs}
        factor = "arith.extf" if len(names) > len(_PRODUCTS) else "arith.mulf"
        taken = [value for op in operations if op.name == factor for value in op.operands]
        takes_both = all(argument in taken for argument in inputs)
        owner = self.yielded[0].owner
        is_sum = not isinstance(owner, ir.Block) and owner.name == "arith.addf"
        expected = ({"f32"},) if factor == "arith.mulf" else ({"f16"}, {"bf16"})
        return kinds.pop() if kinds in expected and is_sum and takes_both else ""

    @cached_property
    def is_transform(self) -> bool:
        """Whether the operation multiplies a tensor by literal constants and sums the products.

        Winograd's transforms do so. The weights of a model are no literal constants.
        """
        return not self.is_elementwise and any(map(is_constant, self.inputs))

    @cached_property
    def points(self) -> int:
        """The number of points of the iteration space: the product of the loops' trip counts."""
        return prod(self.extents)

    @cached_property
    def operations(self) -> int:
        """The number of scalar operations over the iteration space.

        A function of the math dialect counts as 16. Conversions of the factors of a sum of products
        do not count, because the instructions that multiply the factors perform them. Four adjacent
        terms of a sum of products of 8-bit integers count as one multiply-add, as dot-product
        instructions compute them.
        """
        if self._is_dot_product_of_bytes:
            return max(1, 2 * self.points // 4)
        names = [inner.operation.name for inner in self.body]
        if self.matrix_element:
            names = [name for name in names if name != "arith.extf"]
        weights = (16 if name.startswith("math.") else 1 for name in names)
        return self._evaluations * max(1, sum(weights))

    @cached_property
    def _is_dot_product_of_bytes(self) -> bool:
        """Whether an instruction can sum the operation's products of bytes, four at a time.

        Each product has an unsigned and a signed 8-bit factor. A reduction loop of four iterations
        has to index the last dimension of the first operand.
        """
        names = sorted(inner.operation.name for inner in self.body)
        if names != ["arith.addi", "arith.extsi", "arith.extui", "arith.muli"]:
            return False
        last = plain_dim(self.maps[0].results[-1]) if len(self.maps[0].results) else None
        return last in self.reduction_loops and self.extents[last] == 4

    @cached_property
    def _evaluations(self) -> int:
        """The number of times that the body is evaluated, for the estimated cost.

        It is the number of points of the iteration space, unless several reduction loops index
        operands that are results of ``arith.constant``. These loops count as if they ran one after
        the other: the sum of their trip counts replaces the product.
        """
        loops = {
            loop
            for map_, value in zip(self.maps, self.inputs, strict=False)
            if is_constant(value)
            for expr in map_.results
            if (loop := plain_dim(expr)) is not None and not self.parallel[loop]
        }
        extents = [self.extents[loop] for loop in loops]
        if not extents or 0 in extents:
            return self.points
        return self.points // prod(extents) * sum(extents)


def shape_of(value: ir.Value) -> list[int]:
    """Return the shape of a tensor or memref value; empty for a scalar.

    A dynamic size is MLIR's ``ShapedType::kDynamic``.
    """
    kind = value.type
    if isinstance(kind, ir.RankedTensorType | ir.MemRefType):
        return list(kind.shape)
    return []


def element_bytes(kind: ir.Type) -> int:
    """Return the size in bytes of an element of a tensor or memref in memory; 1 for i1."""
    element = kind.element_type if isinstance(kind, ir.RankedTensorType | ir.MemRefType) else kind
    if isinstance(element, ir.IntegerType | ir.FloatType):
        return max(1, element.width // 8)
    if isinstance(element, ir.ComplexType):
        return 2 * element_bytes(element.element_type)
    # Index, the only type left.
    return 8
