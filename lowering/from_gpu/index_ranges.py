"""Finds the ranges of a kernel's index values, from the operations that compute them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.from_gpu.index_range import Arithmetic, Dim3, Range, exactly

_AXES = ("x", "y", "z")

LOOPS = ("scf.for", "affine.for")

_WORD_BITS = 64


def axis_of(operation: ir.Operation) -> int:
    """Return the dimension (0 for x) whose id or size a gpu operation reads."""
    text = str(operation.attributes["dimension"])
    return next(number for number, axis in enumerate(_AXES) if f"dim {axis}" in text)


def map_of(operation: ir.Operation, name: str) -> ir.AffineMap:
    """Return the affine map that is the attribute ``name`` of an operation."""
    return ir.AffineMapAttr(operation.attributes[name]).value


class IndexRanges:
    """Ranges of a kernel's integer values, for known sizes of its grid and block."""

    def __init__(self, grid: Dim3, block: Dim3, known: Mapping[ir.Value, Range]) -> None:
        """Start the analysis from ``known``, the ranges of the kernel's arguments.

        ``grid`` has the counts of blocks, and ``block`` the counts of a block's threads, along x, y
        and z.
        """
        self._grid, self._block = grid, block
        self._arithmetic = Arithmetic(grid)
        self._found: dict[ir.Value, Range | None] = dict(known)

    @property
    def arithmetic(self) -> Arithmetic:
        """The operations on ranges, for the kernel's grid."""
        return self._arithmetic

    def of(self, value: ir.Value) -> Range | None:
        """Return the range of an integer; None if it is unknown."""
        if value not in self._found:
            self._found[value] = None  # values that depend on themselves stay unknown
            found = self._compute(value)
            self._found[value] = found if found is None or self._fits(found, value) else None
        return self._found[value]

    def _fits(self, found: Range, value: ir.Value) -> bool:
        """Return whether all integers of ``found`` fit into the signed type of ``value``."""
        kind = value.type
        bits = kind.width if isinstance(kind, ir.IntegerType) else _WORD_BITS
        low, high = found.bounds(self._grid)
        return -(1 << (bits - 1)) <= low and high < 1 << (bits - 1)

    def _compute(self, value: ir.Value) -> Range | None:
        if isinstance(value.owner, ir.Block):
            return self._counter(ir.BlockArgument(value))
        operation = value.owner.operation
        name = operation.name
        if name in ("gpu.block_id", "gpu.thread_id", "gpu.block_dim", "gpu.grid_dim"):
            return self._id(name, axis_of(operation))
        if name == "gpu.global_id":
            axis = axis_of(operation)
            thread, block = self._id("gpu.thread_id", axis), self._id("gpu.block_id", axis)
            return block.scaled(self._block[axis]) + thread
        if name == "arith.constant":
            attribute = operation.attributes["value"]
            return exactly(attribute.value) if isinstance(attribute, ir.IntegerAttr) else None
        if name in ("affine.apply", "affine.min", "affine.max"):
            return self._affine(operation)
        operands = [self.of(operand) for operand in operation.operands]
        if name == "arith.select":
            operands = operands[1:]
        known = [operand for operand in operands if operand is not None]
        rule = _RULES.get(name)
        if rule is None or len(known) < len(operands):
            return None
        return rule(self._arithmetic, *known)

    def _id(self, name: str, axis: int) -> Range:
        if name == "gpu.block_dim":
            return exactly(self._block[axis])
        if name == "gpu.grid_dim":
            return exactly(self._grid[axis])
        if name == "gpu.thread_id":
            return Range(0, self._block[axis] - 1)
        if self._grid[axis] == 1:
            return exactly(0)
        factors = tuple(int(number == axis) for number in range(3))
        return Range(0, 0, (factors[0], factors[1], factors[2]))

    def _affine(self, operation: ir.Operation) -> Range | None:
        is_max = operation.name == "affine.max"
        return self._bound(map_of(operation, "map"), list(operation.operands), is_max)

    def mapped(self, affine_map: ir.AffineMap, operands: Sequence[ir.Value]) -> list[Range | None]:
        """Return the range of each result of an affine map on ``operands``, None if unknown."""
        known = [self.of(operand) for operand in operands]
        dims, symbols = known[: affine_map.n_dims], known[affine_map.n_dims :]
        return [self._arithmetic.affine(r, dims, symbols) for r in affine_map.results]

    def _bound(
        self, affine_map: ir.AffineMap, operands: Sequence[ir.Value], is_max: bool
    ) -> Range | None:
        """Return the range of a map's greatest result if ``is_max``, else of its least result.

        ``operands`` are those of the map. Return None if the range of a result is unknown.
        """
        join = self._arithmetic.maximum if is_max else self._arithmetic.minimum
        found, *others = self.mapped(affine_map, operands)
        for other in others:
            found = None if found is None or other is None else join(found, other)
        return found

    def _loop(self, loop: ir.Operation) -> tuple[Range | None, Range | None, Range | None]:
        """Return the ranges of a loop's lower bound, upper bound and step.

        A range is None if it is unknown.
        """
        if loop.name == "scf.for":
            lower, upper, step = (self.of(operand) for operand in list(loop.operands)[:3])
            return lower, upper, step
        attributes, operands = loop.attributes, list(loop.operands)
        below, above = list(ir.DenseI32ArrayAttr(attributes["operandSegmentSizes"]))[:2]
        return (
            self._bound(map_of(loop, "lowerBoundMap"), operands[:below], True),
            self._bound(map_of(loop, "upperBoundMap"), operands[below : below + above], False),
            exactly(ir.IntegerAttr(attributes["step"]).value),
        )

    def _counter(self, argument: ir.BlockArgument) -> Range | None:
        """Return the range of a loop's induction variable.

        The result is None for other block arguments and for loops with unknown bounds.
        """
        loop = argument.owner.owner.operation
        if loop.name not in LOOPS or argument.arg_number:
            return None
        lower, upper, step = self._loop(loop)
        if lower is None or upper is None:
            return None
        first, end = lower.constant, upper.constant
        if first is not None and end is not None and step and step.constant:
            last = first + max(end - first - 1, 0) // step.constant * step.constant
            return Range(first, last)
        beyond = upper + exactly(-1)
        return self._arithmetic.hull(lower, self._arithmetic.maximum(lower, beyond))

    def trips(self, loop: ir.Operation) -> int:
        """Return an upper bound on a loop's trip count; 1 if no bound is known."""
        lower, upper, step = self._loop(loop)
        if lower is None or upper is None or step is None or not step.constant:
            return 1
        length = self._arithmetic.absolute(upper - lower).high
        return max(1, -(-length // step.constant))


_Rule = Callable[..., Range | None]


def _same(_: Arithmetic, a: Range) -> Range:
    return a


def _sum(_: Arithmetic, a: Range, b: Range) -> Range:
    return a + b


def _difference(_: Arithmetic, a: Range, b: Range) -> Range:
    return a - b


def _if_not_negative(rule: _Rule) -> _Rule:
    """Return ``rule``, changed to give None (an unknown range) for operands that may be negative.

    A rule computes the range of an operation's result from the ranges of its operands. ``rule`` is
    that of a signed operation; it also holds for the unsigned operation if no operand is negative.
    """

    def restricted(a: Arithmetic, *operands: Range) -> Range | None:
        return None if any(map(a.is_negative, operands)) else rule(a, *operands)

    return restricted


def _shifted(rule: _Rule) -> _Rule:
    def shifted(a: Arithmetic, x: Range, y: Range) -> Range | None:
        places = y.constant
        if places is None or not 0 <= places < _WORD_BITS:
            return None
        return rule(a, x, exactly(1 << places))

    return shifted


def _masked(a: Arithmetic, x: Range, y: Range) -> Range | None:
    """Return the range of ``x & y`` if ``y`` is a constant mask of low bits, else None."""
    mask = y.constant
    if mask is None or mask < 0 or mask & (mask + 1):
        return None
    return a.remainder(x, exactly(mask + 1))


def _ceiling(a: Arithmetic, x: Range, y: Range) -> Range | None:
    negative = a.quotient(x.scaled(-1), y)
    return None if negative is None else negative.scaled(-1)


_RULES: Mapping[str, _Rule] = {
    "arith.index_cast": _same,
    "arith.extsi": _same,
    "arith.trunci": _same,
    "arith.index_castui": _if_not_negative(_same),
    "arith.extui": _if_not_negative(_same),
    "arith.addi": _sum,
    "arith.subi": _difference,
    "arith.muli": Arithmetic.product,
    "arith.floordivsi": Arithmetic.quotient,
    "arith.divsi": _if_not_negative(Arithmetic.quotient),
    "arith.divui": _if_not_negative(Arithmetic.quotient),
    "arith.ceildivsi": _ceiling,
    "arith.ceildivui": _if_not_negative(_ceiling),
    "arith.remsi": _if_not_negative(Arithmetic.remainder),
    "arith.remui": _if_not_negative(Arithmetic.remainder),
    "arith.minsi": Arithmetic.minimum,
    "arith.maxsi": Arithmetic.maximum,
    "arith.minui": _if_not_negative(Arithmetic.minimum),
    "arith.maxui": _if_not_negative(Arithmetic.maximum),
    "arith.select": Arithmetic.hull,
    "arith.shli": _shifted(Arithmetic.product),
    "arith.shrui": _if_not_negative(_shifted(Arithmetic.quotient)),
    "arith.shrsi": _shifted(Arithmetic.quotient),
    "arith.andi": _masked,
}
"""Rules of the analysis, by operation: the range of the result from the ranges of the operands.

A select's operands are its two values, without the condition.
"""
