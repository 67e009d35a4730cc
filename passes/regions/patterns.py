"""Patterns over the readings of operations, as code generators describe what they take as one.

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
from rammer_mlir.passes.regions.reading_kinds import check_kind

Step = Callable[["Pattern"], "Pattern"]
"""Makes a pattern around another one."""


@dataclass(frozen=True, eq=False)
class Pattern:
    """A pattern of a value; one that stands in several places is the same value in all of them."""

    def optional(self, step: Step) -> Pattern:
        """Match ``step`` around this pattern, or this pattern alone."""
        return Alternatives((step(self), self))

    def any_number_of(self, step: Step) -> Pattern:
        """Match ``step`` around this pattern as often as possible, or this pattern alone.

        Raises:
            OptionError: if ``step`` does not make an operation.
        """
        if not isinstance(step(self), Op):
            raise OptionError("any_number_of: expected a step that makes op(...), found another")
        return Repeated(self, step)

    def element_type(self, name: str) -> Pattern:
        """Match only tensors of this element type, for example ``f32``."""
        return Typed(self, name)


@dataclass(frozen=True, eq=False)
class Wildcard(Pattern):
    """Any value from outside of the match; values of one name are the same."""

    name: str = ""
    is_constant: bool = False


@dataclass(frozen=True, eq=False)
class Op(Pattern):
    """The result of an operation.

    Attributes:
        kinds: of its reading, any of them.
        operands: of its inputs; None for any.
        attributes: that its reading has, with these values.
    """

    kinds: tuple[str, ...]
    operands: tuple[Pattern, ...] | None = None
    attributes: Mapping[str, Attribute] = field(default_factory=dict[str, Attribute])


@dataclass(frozen=True, eq=False)
class Alternatives(Pattern):
    """The first of several patterns that leads to a match."""

    options: tuple[Pattern, ...]


@dataclass(frozen=True, eq=False)
class Typed(Pattern):
    """A pattern of tensors of one element type."""

    pattern: Pattern
    name: str


@dataclass(frozen=True, eq=False)
class Repeated(Pattern):
    """A pattern with a step around it, any number of times."""

    pattern: Pattern
    step: Step

    def options(self) -> tuple[Pattern, Pattern]:
        """Return one step more around this pattern, and the pattern without a step."""
        return self.step(Repeated(self.pattern, self.step)), self.pattern


def wildcard(name: str = "") -> Pattern:
    """Match any value."""
    return Wildcard(name)


def constant(name: str = "") -> Pattern:
    """Match a weight, or a number that is written in the code."""
    return Wildcard(name, is_constant=True)


def op(kind: str | tuple[str, ...], *operands: Pattern, **attributes: Attribute) -> Pattern:
    """Match an operation of a kind, or of one of several.

    Args:
        kind: of the reading.
        operands: one for each input, in any order if the kind is commutative; none for any inputs.
        attributes: values that the reading has to have.

    Raises:
        OptionError: if no reading has such a kind.
    """
    kinds = (kind,) if isinstance(kind, str) else kind
    for name in kinds:
        check_kind(name)
    return Op(kinds, operands or None, attributes)


def alternatives(*options: Pattern) -> Pattern:
    """Match one of several patterns, the first that is possible.

    Raises:
        OptionError: if there is none.
    """
    if not options:
        raise OptionError("alternatives: expected at least one pattern, found none")
    return Alternatives(options)


@dataclass(frozen=True)
class CompositePattern:
    """A named pattern in a code generator's table.

    Attributes:
        name: the code generator's name, a dot, and a name of its own.
        pattern: of the composite's result.
        check: a condition on a match besides, which may look at its operands by their names.
        priority: matches of patterns with a higher one are taken first.
    """

    name: str
    pattern: Pattern
    check: Callable[[Match], bool] | None = None
    priority: int = 0


def root_kinds(pattern: Pattern) -> Iterator[str]:
    """Yield the kinds of operations whose result a pattern can match."""
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
