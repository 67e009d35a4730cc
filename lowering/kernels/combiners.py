"""Finds the combiner of each reduction: the associative operation that combines the elements."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from rammer_mlir.bindings import arith, ir, vector
from rammer_mlir.lowering.ir_walk import constant_integer
from rammer_mlir.passes.ir.structured import Structured


class Bound(Enum):
    """The least or the greatest value of a signed integer type of any width.

    The identity of a ``Rule`` for integer maxima or minima is a bound instead of a number, because
    the rule is valid for every width.
    """

    LOWEST = "lowest"
    HIGHEST = "highest"


@dataclass(frozen=True)
class Rule:
    """Properties of an associative and commutative operation.

    Attributes:
        kind: name of the operation among the kinds of ``vector.reduction``.
        identity: neutral element of the operation.
        rounds: whether the order of the operands affects rounding.
        by_halves: whether to reduce a vector by combining its two halves until one element is left,
            instead of by LLVM's reduction. For maxima and minima of floats, LLVM's reduction is
            slow: it ignores fast-math flags and compares the signs of zeros at each combination.
    """

    kind: str
    identity: float | Bound
    rounds: bool = False
    by_halves: bool = False


# maxnum and minnum ignore a NaN, maximum and minimum propagate it; -0.0 keeps a zero's sign.
COMBINERS: Mapping[str, Rule] = {
    "arith.addf": Rule("add", -0.0, rounds=True),
    "arith.mulf": Rule("mul", 1.0, rounds=True),
    "arith.maximumf": Rule("maximumf", -math.inf, by_halves=True),
    "arith.minimumf": Rule("minimumf", math.inf, by_halves=True),
    "arith.maxnumf": Rule("maxnumf", math.nan, by_halves=True),
    "arith.minnumf": Rule("minnumf", math.nan, by_halves=True),
    "arith.addi": Rule("add", 0),
    "arith.muli": Rule("mul", 1),
    "arith.maxsi": Rule("maxsi", Bound.LOWEST),
    "arith.minsi": Rule("minsi", Bound.HIGHEST),
    "arith.maxui": Rule("maxui", 0),
    "arith.minui": Rule("minui", -1),
    "arith.andi": Rule("and", -1),
    "arith.ori": Rule("or", 0),
    "arith.xori": Rule("xor", 0),
}
"""Rules by operation name.

An integer identity is a bit pattern that is valid for every width, -1 for all ones.
"""


_SUMS: Mapping[str, str] = {"arith.subf": "arith.addf", "arith.subi": "arith.addi"}
"""Operation that combines partial results, by the operation that subtracts elements."""


@dataclass(frozen=True)
class Combiner:
    """The operation that combines the elements of a reduction.

    Attributes:
        name: name of the MLIR operation, such as ``arith.addf``.
        attributes: attributes with which the operation is emitted.
        element: type of the reduction's result in memory.
        is_boolean: whether the operation combines booleans, which are bytes in memory.
    """

    name: str
    attributes: Mapping[str, ir.Attribute]
    element: ir.Type
    is_boolean: bool = False

    @property
    def rule(self) -> Rule:
        """The combiner's rule: the properties of its operation."""
        return COMBINERS[self.name]

    def identity(self) -> ir.Value:
        """Emit the operation's neutral element as a scalar."""
        if self.is_boolean:
            return arith.constant(self.element, int(_identity_of(self.rule, _boolean())) & 1)
        if isinstance(self.element, ir.FloatType):
            number = ir.FloatAttr.get(self.element, _identity_of(self.rule, self.element))
            return arith.constant(self.element, number)
        return arith.constant(self.element, int(_identity_of(self.rule, self.element)))

    def combine(self, left: ir.Value, right: ir.Value) -> ir.Value:
        """Emit the operation on two partial results, scalars or vectors."""
        if self.is_boolean:
            return arith.extui(left.type, self._create(_is_set(left), _is_set(right)))
        return self._create(left, right)

    def combine_all(self, parts: list[ir.Value]) -> ir.Value:
        """Emit the combination of a list of partial results, as a balanced tree of operations."""
        while len(parts) > 1:
            pairs = [self.combine(a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)]
            parts = pairs + parts[len(pairs) * 2 :]
        return parts[0]

    def reduce(self, accumulator: ir.Value) -> ir.Value:
        """Emit the reduction of the vector ``accumulator`` to a scalar.

        The order in which its elements are combined is not specified.
        """
        if self.rule.by_halves:
            return self._reduce_by_halves(accumulator)
        kind = ir.Attribute.parse(f"#vector.kind<{self.rule.kind}>")
        if self.rule.rounds:
            fastmath = ir.Attribute.parse("#arith.fastmath<reassoc>")
            return vector.reduction(self.element, kind, accumulator, fastmath=fastmath)
        return vector.reduction(self.element, kind, accumulator)

    def _reduce_by_halves(self, register: ir.Value) -> ir.Value:
        """Emit the reduction of a vector, whose size is a power of two, to a scalar."""
        size = ir.VectorType(register.type).shape[0]
        while size > 1:
            size //= 2
            low = vector.shuffle(register, register, list(range(size)))
            high = vector.shuffle(register, register, list(range(size, 2 * size)))
            register = self.combine(low, high)
        return vector.extract(register, [], [0])

    def _create(self, left: ir.Value, right: ir.Value) -> ir.Value:
        return ir.Operation.create(
            self.name,
            results=[left.type],
            operands=[left, right],
            attributes=dict(self.attributes),
        ).results[0]


def _identity_of(rule: Rule, element: ir.Type) -> float:
    if not isinstance(rule.identity, Bound):
        return rule.identity
    bits = element.width if isinstance(element, ir.IntegerType) else 64  # of an index
    lowest = -(1 << (bits - 1))
    return lowest if rule.identity is Bound.LOWEST else -lowest - 1


def _boolean() -> ir.IntegerType:
    return ir.IntegerType.get_signless(1)


def _is_set(byte: ir.Value) -> ir.Value:
    return arith.cmpi(arith.CmpIPredicate.ne, byte, arith.constant(byte.type, 0))


def find_combiners(generic: Structured) -> list[Combiner] | None:
    """Return the combiner of each result of a reduction; None if a result has no known combiner.

    In the body, the combiner must be the only user of the accumulator, and the body must yield the
    combiner's result.
    """
    accumulators = generic.arguments[-generic.num_outputs :]
    found = [
        _find_combiner(accumulator, value)
        for accumulator, value in zip(accumulators, generic.yielded, strict=True)
    ]
    known = [combiner for combiner in found if combiner is not None]
    return known if len(known) == len(found) else None


def _find_combiner(accumulator: ir.Value, yielded: ir.Value) -> Combiner | None:
    user, definition = _only_user(accumulator), _definition(yielded)
    # The yielded value may be unrelated to the accumulator, as after folding a product with zero.
    if user is None or definition is None or _only_user(yielded) is None:
        return None
    element = accumulator.type
    if user == definition:
        if user.name in COMBINERS:
            return Combiner(user.name, dict(user.attributes), element)
        if user.name in _SUMS and user.operands[0] == accumulator:
            return Combiner(_SUMS[user.name], dict(user.attributes), element)
    if user.name != "arith.cmpi" or not _tests_bits(user):
        return None
    # A boolean is a byte in memory: the body compares it with zero, and extends the yielded value.
    operation = _only_user(user.results[0])
    if operation is None or operation.name not in COMBINERS:
        return None
    extension = _only_user(operation.results[0])
    if definition.name != "arith.extui" or extension is None or extension != definition:
        return None
    return Combiner(operation.name, dict(operation.attributes), element, is_boolean=True)


def _only_user(value: ir.Value) -> ir.Operation | None:
    users = [use.owner.operation for use in value.uses]
    return users[0] if len(users) == 1 else None


def _definition(value: ir.Value) -> ir.Operation | None:
    return None if isinstance(value.owner, ir.Block) else value.owner.operation


def _tests_bits(comparison: ir.Operation) -> bool:
    """Return whether a comparison tests a boolean stored as a byte: ``value != 0``."""
    predicate = ir.IntegerAttr(comparison.attributes["predicate"]).value
    return predicate == arith.CmpIPredicate.ne and constant_integer(comparison.operands[1]) == 0
