"""Defines patterns over readings, for code generators to describe composites.

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
    """A pattern of a value; all uses of a pattern object must match the same value."""

    def optional(self, step: Step) -> Pattern:
        """Return a pattern of an optional operation after this pattern.

        ``step`` makes the pattern of the operation from the pattern of its operand. The result
        matches the operation on a match of this pattern, or else this pattern alone.
        """
        return Alternatives((step(self), self))

    def any_number_of(self, step: Step) -> Pattern:
        """Return a pattern that allows any number of operations after this pattern, or none.

        ``step`` makes the pattern of such an operation from the pattern of its operand. Matches
        with more operations are preferred.

        Raises:
            OptionError: if ``step`` does not make an operation.
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
    """A pattern of any value from outside of the match; if ``is_constant``, of any constant.

    Wildcards with equal names match the same value; an empty name binds nothing.
    """

    name: str = ""
    is_constant: bool = False


@dataclass(frozen=True, eq=False)
class Op(Pattern):
    """A pattern of the result of an operation.

    Attributes:
        kinds: the accepted kinds of the operation's reading.
        operands: the patterns of the operation's inputs; None for any inputs.
        attributes: required attributes of the operation's reading, with their values.
    """

    kinds: tuple[str, ...]
    operands: tuple[Pattern, ...] | None = None
    attributes: Mapping[str, Attribute] = field(default_factory=dict[str, Attribute])


@dataclass(frozen=True, eq=False)
class Alternatives(Pattern):
    """A pattern that tries several patterns in order; the first that leads to a match is taken."""

    options: tuple[Pattern, ...]


@dataclass(frozen=True, eq=False)
class Typed(Pattern):
    """The pattern ``pattern`` for tensors of element type ``name``, such as ``f32``, only."""

    pattern: Pattern
    name: str


@dataclass(frozen=True, eq=False)
class Repeated(Pattern):
    """A pattern followed by any number of operations.

    ``step`` makes the pattern of such an operation from the pattern of its operand.
    """

    pattern: Pattern
    step: Step

    def options(self) -> tuple[Pattern, Pattern]:
        """The two alternatives: one more operation after the pattern, or the pattern alone."""
        return self.step(Repeated(self.pattern, self.step)), self.pattern


def wildcard(name: str = "") -> Pattern:
    """Return a pattern of any value from outside of the match.

    Wildcards with equal names match the same value; wildcards without a name are independent.
    """
    return Wildcard(name)


def constant(name: str = "") -> Pattern:
    """Return a pattern of a weight or of a constant in the IR; the match binds it to ``name``."""
    return Wildcard(name, is_constant=True)


def op(kind: str | tuple[str, ...], *operands: Pattern, **attributes: Attribute) -> Pattern:
    """Return a pattern of an operation of a kind, or of any of several kinds.

    Args:
        kind: the kind or kinds of the reading.
        operands: a pattern for each input, in any order if the kind is commutative; none for any
            inputs.
        attributes: required values of the reading's attributes.

    Raises:
        OptionError: if no reading has such a kind, or readings of these kinds have no such
            attributes or another number of inputs.
    """
    kinds = (kind,) if isinstance(kind, str) else kind
    for name in kinds:
        check_kind(name)
    check_pattern(kinds, len(operands), attributes)
    return Op(kinds, operands or None, attributes)


def alternatives(*options: Pattern) -> Pattern:
    """Return a pattern that tries ``options`` in order; the first that leads to a match is taken.

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
    """Yield the kinds of operations that can be the last operation of a match of the pattern."""
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
