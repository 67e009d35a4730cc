"""Defines patterns of recognized operations, for code generators to describe composites.

A composite is a group of operations that a code generator computes as a whole.

Example::

    conv = op("conv2d", wildcard("x"), constant("w"))
    biased = conv.optional(lambda c: op("add", c, constant("b")))
    CompositePattern("acc.conv_bias_relu", biased.optional(lambda c: op("relu", c)))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from rammer_mlir.errors import OptionError
from rammer_mlir.passes.regions.match import Match
from rammer_mlir.passes.regions.reading import Attribute
from rammer_mlir.passes.regions.reading_kinds import check_kind, check_pattern

Step = Callable[["Pattern"], "Pattern"]
"""A function that makes a pattern around another pattern."""


@dataclass(frozen=True, eq=False)
class Pattern:
    """A pattern of an IR value.

    If a pattern object occurs several times in a larger pattern, all occurrences must match the
    same value.
    """

    def optional(self, step: Step) -> Pattern:
        """Return this pattern with an optional operation that reads the matched value.

        Args:
            step: function that returns the pattern of the operation, given the pattern of the
                operand that it reads. A match with the operation is preferred.
        """
        return Alternatives((step(self), self))

    def any_number_of(self, step: Step) -> Pattern:
        """Return a pattern of the last result of a chain of operations that starts at this pattern.

        The chain has zero or more operations; longer chains are preferred.

        Args:
            step: function that describes each operation of the chain: it returns the pattern of the
                operation, given the pattern of the operand that the operation reads from the chain.

        Raises:
            OptionError: if ``step`` does not return an ``op(...)`` pattern.
        """
        made = step(self)
        if not isinstance(made, Op) or made is self:
            raise OptionError("any_number_of: expected a step that makes op(...), found another")
        return Repeated(self, step)

    def element_type(self, name: str) -> Pattern:
        """Return this pattern, restricted to tensors of element type ``name``, such as ``f32``."""
        return Typed(self, name)


@dataclass(frozen=True, eq=False)
class Wildcard(Pattern):
    """A pattern of any value that is not computed inside the match.

    If ``is_constant``, the value must be a weight or a constant in the IR. Wildcards with equal
    names match the same value; a wildcard with an empty name is independent, and binds no operand.
    """

    name: str = ""
    is_constant: bool = False


@dataclass(frozen=True, eq=False)
class Op(Pattern):
    """A pattern of the result of an operation.

    Attributes:
        kinds: the accepted kinds of the operation, such as ``conv2d``.
        operands: the patterns of the operation's inputs; None for any inputs.
        attributes: required attributes of the operation, with their values.
    """

    kinds: tuple[str, ...]
    operands: tuple[Pattern, ...] | None = None
    attributes: Mapping[str, Attribute] = field(default_factory=dict[str, Attribute])


@dataclass(frozen=True, eq=False)
class Alternatives(Pattern):
    """A pattern that matches any of the patterns ``options``; earlier options are preferred."""

    options: tuple[Pattern, ...]


@dataclass(frozen=True, eq=False)
class Typed(Pattern):
    """A pattern of a tensor that matches ``pattern`` and has element type ``name``.

    An example of ``name`` is ``f32``.
    """

    pattern: Pattern
    name: str


@dataclass(frozen=True, eq=False)
class Repeated(Pattern):
    """A pattern of the last result of a chain of zero or more operations on a value.

    The value matches ``pattern``. The first operation of the chain reads the value, each later
    operation reads the result of the previous operation. ``step`` returns the pattern of an
    operation, given the pattern of the operand that the operation reads from the chain. Without
    operations, the value itself matches.
    """

    pattern: Pattern
    step: Step

    def options(self) -> tuple[Pattern, Pattern]:
        """Return two alternatives: a chain with at least one operation, and ``pattern`` alone."""
        return self.step(Repeated(self.pattern, self.step)), self.pattern


def wildcard(name: str = "") -> Pattern:
    """Return a pattern of any value that is not computed inside the match.

    Wildcards with equal names match the same value; wildcards without a name are independent.
    """
    return Wildcard(name)


def constant(name: str = "") -> Pattern:
    """Return a pattern of a weight or of a constant in the IR; the match binds it to ``name``."""
    return Wildcard(name, is_constant=True)


def op(kind: str | tuple[str, ...], *operands: Pattern, **attributes: Attribute) -> Pattern:
    """Return a pattern of an operation of the given kind, or of one of several kinds.

    Args:
        kind: the accepted kind or kinds, such as ``conv2d``; ``docs/ir.md`` lists all kinds.
        operands: a pattern for each input, in any order if the kind is commutative. Without
            operands, the pattern matches any inputs.
        attributes: required values of the operation's attributes.

    Raises:
        OptionError: if a kind is unknown, or if operations of these kinds lack one of the
            attributes or have a different count of inputs.
    """
    kinds = (kind,) if isinstance(kind, str) else kind
    for name in kinds:
        check_kind(name)
    check_pattern(kinds, len(operands), attributes)
    return Op(kinds, operands or None, attributes)


def alternatives(*options: Pattern) -> Pattern:
    """Return a pattern that matches one of the patterns ``options``; earlier options are preferred.

    Raises:
        OptionError: if no pattern is given.
    """
    if not options:
        raise OptionError("alternatives: expected at least one pattern, found none")
    return Alternatives(options)


@dataclass(frozen=True)
class CompositePattern:
    """A named pattern of operations that a code generator computes as one composite.

    Attributes:
        name: unique name, prefixed with the code generator's name and a dot.
        pattern: the pattern, rooted at the operation that produces the composite's result.
        check: predicate that a match must also satisfy; None for no condition. The match gives
            access to the matched operands by the names in the pattern.
        priority: patterns with a higher priority are matched first.
    """

    name: str
    pattern: Pattern
    check: Callable[[Match], bool] | None = None
    priority: int = 0

    def __post_init__(self) -> None:
        """Raise an OptionError if the pattern's root is no operation, or a field is invalid."""
        given = vars(self)
        if not isinstance(given["pattern"], Pattern) or not any(root_kinds(self.pattern)):
            raise OptionError(
                f"pattern '{self.name}': expected op(...) as root, found {given['pattern']!r}"
            )
        if not isinstance(given["priority"], int | float):
            raise OptionError(
                f"pattern '{self.name}': expected a number as priority, found {self.priority!r}"
            )
        if self.check is not None and not callable(self.check):
            raise OptionError(f"pattern '{self.name}': expected a function as check")


def root_kinds(pattern: Pattern) -> Iterator[str]:
    """Yield the kinds of operations that can be the root of a match of ``pattern``."""
    if isinstance(pattern, Op):
        yield from pattern.kinds
    elif isinstance(pattern, Typed):
        yield from root_kinds(pattern.pattern)
    elif isinstance(pattern, Alternatives):
        for option in pattern.options:
            yield from root_kinds(option)
    elif isinstance(pattern, Repeated):
        yield from root_kinds(pattern.step(pattern.pattern))
        yield from root_kinds(pattern.pattern)
