"""Tests that pattern matches equal those of an exhaustive search.

Composites equal those of a greedy choice among all matches.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from rammer_mlir.errors import OptionError, PassError
from rammer_mlir.passes.regions.expressions import COMMUTATIVE
from rammer_mlir.passes.regions.match import Match
from rammer_mlir.passes.regions.matching import (
    Composite,
    ReadingGraph,
    find_composites,
    matches,
)
from rammer_mlir.passes.regions.patterns import (
    Alternatives,
    CompositePattern,
    Op,
    Pattern,
    Typed,
    Wildcard,
    alternatives,
    constant,
    op,
    wildcard,
)
from rammer_mlir.passes.regions.reading import Operand, Reading

CONSTANTS = ("w", "b", "v")


def operand(name: str) -> Operand:
    kind = "f16" if name.startswith("h") else "f32"
    return Operand(name, (2, 3), kind, is_constant=name in CONSTANTS)


def graph(text: str, *elsewhere: str) -> ReadingGraph:
    """Return the graph of the operations in ``text``, one on each line: ``output = kind input...``.

    The last operation's output and the values ``elsewhere`` are also used outside of the graph.
    """
    readings: list[Reading] = []
    for line in text.strip().splitlines():
        output, _, kind, *inputs = line.split()
        readings.append(Reading(kind, tuple(map(operand, inputs)), operand(output)))
    return ReadingGraph(readings, {readings[-1].output.value, *elsewhere})


CHAIN = """
    c = conv2d x w
    a = add b c
    r = relu a
"""

CONV = op("conv2d", wildcard("x"), constant("w"))
BIASED = CONV.optional(lambda c: op("add", c, constant("b")))
TABLE = [CompositePattern("acc.conv", BIASED.optional(lambda c: op("relu", c)))]


def found(graph: ReadingGraph, *patterns: CompositePattern) -> list[tuple[str, tuple[int, ...]]]:
    return [(each.name, each.match.numbers) for each in find_composites(graph, patterns)]


def test_a_sequence_with_optional_parts() -> None:
    assert found(graph(CHAIN), *TABLE) == [("acc.conv", (0, 1, 2))]
    assert found(graph("c = conv2d x w\nr = relu c"), *TABLE) == [("acc.conv", (0, 1))]
    assert found(graph("c = conv2d x w\nt = tanh c"), *TABLE) == [("acc.conv", (0,))]
    assert found(graph("c = conv2d x y\nr = relu c"), *TABLE) == []


def test_operands_have_the_names_of_the_pattern() -> None:
    (match,) = list(matches(graph(CHAIN), TABLE[0].pattern, 2))
    assert {name: match[name].value for name in "xwb"} == {"x": "x", "w": "w", "b": "b"}
    assert match.root.kind == "relu"
    (match,) = list(matches(graph("c = conv2d x w"), TABLE[0].pattern, 0))
    assert "b" not in match


def test_values_inside_may_not_escape() -> None:
    assert found(graph(CHAIN, "a"), *TABLE) == [("acc.conv", (0, 1))]
    assert found(graph(CHAIN + "s = mul c r"), *TABLE) == [("acc.conv", (0,))]


def test_one_name_is_one_value() -> None:
    square = CompositePattern("acc.square", op("mul", wildcard("x"), wildcard("x")))
    assert found(graph("y = mul x x"), square) == [("acc.square", (0,))]
    assert found(graph("y = mul x z"), square) == []


def test_a_pattern_in_two_places_is_one_operation() -> None:
    shared = op("exp", wildcard("x"))
    swish = CompositePattern("acc.twice", op("sub", shared, op("neg", shared)))
    assert found(graph("e = exp x\nn = neg e\ns = sub e n"), swish) == [("acc.twice", (0, 1, 2))]
    assert found(graph("e = exp x\nf = exp x\nn = neg f\ns = sub e n"), swish) == []


def test_two_operations_of_a_pattern_are_two_of_the_graph() -> None:
    both = CompositePattern("acc.both", op("add", op("relu", wildcard()), op("relu", wildcard())))
    assert found(graph("r = relu x\ns = add r r"), both) == []
    assert found(graph("r = relu x\nq = relu x\ns = add r q"), both) == [("acc.both", (0, 1, 2))]


def test_a_wildcard_is_outside_of_the_match() -> None:
    pattern = CompositePattern("acc.add", op("add", op("relu", wildcard()), wildcard()))
    assert found(graph("r = relu x\ns = add r r"), pattern) == []


def test_alternatives_attributes_and_element_types() -> None:
    either = alternatives(op("relu", wildcard()), op("tanh", wildcard()))
    assert found(graph("t = tanh x"), CompositePattern("acc.t", either)) == [("acc.t", (0,))]
    half = CompositePattern("acc.half", op("relu", wildcard("x").element_type("f16")))
    assert found(graph("r = relu h"), half) == [("acc.half", (0,))]
    assert found(graph("r = relu x"), half) == []
    strided = Reading("max_pool", (operand("x"),), operand("y"), {"strides": (2, 2)})
    only = ReadingGraph([strided], {"y"})
    for strides, count in (((2, 2), 1), ((1, 1), 0)):
        pattern = op("max_pool", wildcard(), strides=strides)
        assert len(list(matches(only, pattern, 0))) == count
    assert len(list(matches(only, op("max_pool", wildcard(), dilations=(1, 1)), 0))) == 0
    assert len(list(matches(only, op(("min_pool", "max_pool")), 0))) == 1


def test_any_number_of_steps_takes_as_many_as_there_are() -> None:
    chain = wildcard("x").any_number_of(lambda c: op(("relu", "tanh"), c))
    pattern = CompositePattern("acc.chain", op("exp", chain))
    assert found(graph("a = relu x\nt = tanh a\nr = relu t\ne = exp r"), pattern) == [
        ("acc.chain", (0, 1, 2, 3))
    ]
    assert found(graph("e = exp x"), pattern) == [("acc.chain", (0,))]
    text = "a = relu x\nt = tanh a\nr = relu t\ne = exp r"
    assert found(graph(text, "t"), pattern) == [("acc.chain", (2, 3))]


def test_kinds_that_no_reading_has_are_refused() -> None:
    with pytest.raises(OptionError, match=r"found 'matmull'; did you mean 'matmul'\?"):
        op("matmull", wildcard())
    with pytest.raises(OptionError, match=r"found 'qqqq'; docs/ir\.md lists them"):
        op(("relu", "qqqq"), wildcard())


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (
            lambda: op("matmul", wildcard(), wildcard(), transposed=1),
            "pattern of 'matmul': expected attributes among transpose_a, transpose_b, found 'trans",
        ),
        (lambda: op(("reshape", "transpose"), perm=1), "among permutation, found 'perm'"),
        (lambda: op("softmax", axis=1), "expected attributes among axes, found 'axis'"),
        (lambda: op("matmul", wildcard()), "'matmul': expected 2 operands, found 1"),
        (
            lambda: op(("relu", "conv2d"), wildcard()).any_number_of(lambda p: p),
            "any_number_of: expected a step that makes op",
        ),
        (
            lambda: CompositePattern("acc.x", wildcard("x")),
            r"pattern 'acc.x': expected op\(...\) as root, found Wildcard",
        ),
        (
            lambda: CompositePattern("acc.x", "matmul"),  # pyright: ignore[reportArgumentType]
            "as root, found 'matmul'",
        ),
        (
            lambda: CompositePattern("acc.x", op("relu"), None, "high"),  # pyright: ignore[reportArgumentType]
            "pattern 'acc.x': expected a number as priority, found 'high'",
        ),
    ],
)
def test_patterns_that_never_match_are_refused(made: Callable[[], Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        made()


def test_a_step_without_an_operation_is_refused() -> None:
    with pytest.raises(OptionError, match=r"any_number_of: expected a step that makes op"):
        wildcard().any_number_of(lambda c: c)
    with pytest.raises(OptionError, match="at least one pattern"):
        alternatives()


def test_priority_then_size_then_the_later_root() -> None:
    two = CompositePattern("acc.two", op("relu", op("relu", wildcard())))
    one = CompositePattern("acc.one", op("relu", wildcard()))
    text = "p = relu x\nq = relu p\nr = relu q"
    assert found(graph(text), two, one) == [("acc.one", (0,)), ("acc.two", (1, 2))]
    assert found(graph(text), one, two) == [("acc.one", (0,)), ("acc.two", (1, 2))]
    first = CompositePattern("acc.first", op("relu", wildcard()), priority=1)
    assert [name for name, _ in found(graph(text), two, first)] == ["acc.first"] * 3


def test_a_smaller_match_where_a_larger_one_has_lost_an_operation() -> None:
    chain = op("relu", wildcard()).optional(lambda c: op("tanh", c))
    late = CompositePattern("acc.late", op("exp", op("tanh", wildcard())), priority=1)
    text = "r = relu x\nt = tanh r\ne = exp t"
    pattern = CompositePattern("acc.chain", alternatives(chain, op("relu")))
    assert found(graph(text), pattern, late) == [("acc.chain", (0,)), ("acc.late", (1, 2))]


def test_checks_see_the_match_and_may_not_fail() -> None:
    def is_flat(match: Match) -> bool:
        return match["x"].rank == 2

    def is_wrong(match: Match) -> bool:
        return match["y"].rank == 2

    assert len(
        found(graph("r = relu x"), CompositePattern("a.r", op("relu", wildcard("x")), is_flat))
    )
    with pytest.raises(PassError, match=r"pattern 'a.r': expected its check .* KeyError: 'y'"):
        found(graph("r = relu x"), CompositePattern("a.r", op("relu", wildcard("x")), is_wrong))


# --- brute force ---


def expansions(pattern: Pattern) -> Iterator[Mapping[Pattern, Pattern]]:
    """Yield every way to choose one option for each pattern that has alternatives.

    A way maps each such pattern to the chosen option.
    """
    pending, found = [pattern], dict.fromkeys([pattern])
    while pending:
        for part in parts(pending.pop()):
            if part not in found:
                found[part] = None
                pending.append(part)
    open_ones = [each for each in found if isinstance(each, Alternatives)]
    for chosen in itertools.product(*(each.options for each in open_ones)):
        yield dict(zip(open_ones, chosen, strict=True))


def parts(pattern: Pattern) -> Sequence[Pattern]:
    if isinstance(pattern, Alternatives):
        return pattern.options
    if isinstance(pattern, Typed):
        return (pattern.pattern,)
    return pattern.operands or () if isinstance(pattern, Op) else ()


Names = frozenset[tuple[str, Hashable]]
"""The values that a match gives to the names of a pattern's wildcards."""


def all_matches(
    graph: ReadingGraph, pattern: Pattern, root: int
) -> set[tuple[tuple[int, ...], Names]]:
    """Return all matches at operation ``root``: their operations, and the values of the names.

    All injective maps of the pattern's operations to operations of the graph are tried. The names
    are those of the pattern's wildcards.
    """
    found: set[tuple[tuple[int, ...], Names]] = set()
    for chosen in expansions(pattern):

        def resolved(each: Pattern, chosen: Mapping[Pattern, Pattern] = chosen) -> Pattern:
            while each in chosen:
                each = chosen[each]
            return each

        top = resolved(pattern)
        ops, pending = [top], [top]
        while pending:
            for part in map(resolved, parts(pending.pop())):
                if isinstance(part, Op) and part not in ops:
                    ops.append(part)
                    pending.append(part)
        if not isinstance(top, Op):
            continue
        others = [number for number in range(len(graph.readings)) if number != root]
        for rest in itertools.permutations(others, len(ops) - 1):
            numbers = (root, *rest)
            image = dict(zip(ops, numbers, strict=True))
            found |= {(tuple(sorted(numbers)), n) for n in names_of(graph, image, resolved)}
    return found


def names_of(
    graph: ReadingGraph, image: Mapping[Pattern, int], resolved: object
) -> Iterator[Names]:
    """Yield the values of the wildcards' names, once for each order of operands that matches.

    ``image`` maps the pattern's operations to operations of the graph; ``resolved`` replaces
    alternatives by the chosen ones. Nothing is yielded if kinds or operands differ, or if an
    operation outside of the match uses a value from within.
    """
    inside = set(image.values())
    for each, number in image.items():
        reading = graph.readings[number]
        assert isinstance(each, Op)
        if reading.kind not in each.kinds or len(reading.inputs) != len(each.operands or ()):
            return
    (top,) = [number for number in list(image.values())[:1]]
    if any(graph.escapes(number, inside) for number in inside - {top}):
        return
    orders = [
        [reading.inputs, reading.inputs[::-1]] if reading.kind in COMMUTATIVE else [reading.inputs]
        for reading in (graph.readings[number] for number in image.values())
    ]
    for order in itertools.product(*orders):
        values = agreed(graph, image, resolved, dict(zip(image, order, strict=True)))
        if values is not None:
            yield frozenset((key, value) for key, value in values.items() if isinstance(key, str))


def agreed(
    graph: ReadingGraph,
    image: Mapping[Pattern, int],
    resolved: object,
    order: Mapping[Pattern, Sequence[Operand]],
) -> Mapping[object, Hashable] | None:
    """Return the values of wildcards and of their names, for the order ``order`` of operands.

    The result is None if an operand does not match, or if a name would get two values. The other
    arguments are those of ``names_of``.
    """
    assert callable(resolved)
    inside, values = set(image.values()), dict[object, Hashable]()
    for each, inputs in order.items():
        assert isinstance(each, Op)
        for part, given in zip(map(resolved, each.operands or ()), inputs, strict=True):
            if isinstance(part, Op):
                if graph.producer(given.value) != image[part]:
                    return None
                continue
            assert isinstance(part, Wildcard)
            if graph.producer(given.value) in inside or (part.is_constant > given.is_constant):
                return None
            for key in (part, part.name) if part.name else (part,):
                if values.setdefault(key, given.value) != given.value:
                    return None
    return values


def random_graph(rng: random.Random) -> ReadingGraph:
    lines: list[str] = []
    known = ["x", "w", "b"]
    for number in range(rng.randint(2, 7)):
        kind = rng.choice(("add", "sub", "relu", "add"))
        inputs = [rng.choice(known[-4:]) for _ in range(1 if kind == "relu" else 2)]
        known.append(f"t{number}")
        lines.append(f"t{number} = {kind} {' '.join(inputs)}")
    return graph("\n".join(lines), *(rng.choice(known) for _ in range(rng.randint(0, 1))))


def random_pattern(rng: random.Random, alternating: float = 0.3) -> Pattern:
    """Return a pattern of up to four operations, with shared parts and alternatives.

    Two of its wildcards may have one name. ``alternating`` is the probability of an alternative.
    """
    leaves: list[Pattern] = [
        wildcard("x"), wildcard(), constant("w"), wildcard("y"), wildcard("x")
    ]  # fmt: skip
    made: list[Pattern] = []
    for _ in range(rng.randint(1, 4)):
        choices = leaves + made * 2
        kind = rng.choice(("add", "sub", "relu"))
        count = 1 if kind == "relu" else 2
        # The last part is always used, so that the pattern is connected.
        inputs = [*made[-1:], *rng.choices(choices, k=count)][:count]
        rng.shuffle(inputs)
        each = op(kind, *inputs)
        if rng.random() < alternating and made:
            each = alternatives(each, made[-1])
        made.append(each)
    return made[-1]


def test_matching_equals_all_injective_maps() -> None:
    """Matching finds the same operations and the same values of names as exhaustive search."""
    rng = random.Random(5)
    hits = named = 0
    for _ in range(1500):
        where, pattern = random_graph(rng), random_pattern(rng)
        for root in range(len(where.readings)):
            found = {(each.numbers, bound(each)) for each in matches(where, pattern, root)}
            assert found == all_matches(where, pattern, root)
            hits += bool(found)
            named += len({names for _, names in found}) > 1
    assert hits > 500 and named > 20


def bound(match: Match) -> Names:
    """Return the values that a match gives to the names of the pattern's wildcards."""
    return frozenset((name, operand.value) for name, operand in match.operands.items())


def random_line(rng: random.Random) -> ReadingGraph:
    """Return a graph of functions of one operand, most of which read the result of the one before.

    Matches overlap in such a graph.
    """
    known, lines = ["x"], list[str]()
    for number in range(rng.randint(4, 9)):
        before = known[-1] if rng.random() < 0.9 else rng.choice(known)
        known.append(f"t{number}")
        lines.append(f"t{number} = {rng.choice(('relu', 'tanh'))} {before}")
    return graph("\n".join(lines))


def random_sequence(rng: random.Random) -> Pattern:
    """Return a pattern of successive functions of one operand, some of them optional."""
    pattern = op(rng.choice(("relu", "tanh")), wildcard())
    for _ in range(rng.randint(0, 3)):
        kind = rng.choice(("relu", "tanh", ("relu", "tanh")))

        def step(before: Pattern, kind: str | tuple[str, ...] = kind) -> Pattern:
            return op(kind, before)

        pattern = pattern.optional(step) if rng.random() < 0.4 else step(pattern)
    return pattern


def random_table(
    rng: random.Random, pattern_of: Callable[[random.Random], Pattern]
) -> list[CompositePattern]:
    """Return a table of random patterns, some of them with a higher priority or with a check."""
    return [
        CompositePattern(
            f"acc.{number}",
            pattern_of(rng),
            Refusing(rng.randrange(4)) if rng.random() < 0.4 else None,
            int(rng.random() < 0.25),
        )
        for number in range(rng.randint(1, 4))
    ]


@dataclass(frozen=True)
class Refusing:
    """A check of a pattern's matches that refuses about one match in four.

    Its verdict depends on the indices of the match's operations and on ``salt``.
    """

    salt: int

    def __call__(self, match: Match) -> bool:
        return self.takes(match.numbers)

    def takes(self, numbers: Sequence[int]) -> bool:
        return (sum(numbers) + self.salt) % 4 != 0


Key = tuple[int, int, int, int]
"""Negated priority, size and root, and the index in the table: the least key comes first."""


def options_of(
    graph: ReadingGraph, table: Sequence[CompositePattern]
) -> set[tuple[Key, tuple[int, ...]]]:
    """Return all matches of all patterns of ``table`` that the patterns' checks accept.

    A match is given by its key, by which a greedy choice orders matches, and its operations.
    """
    return {
        ((-pattern.priority, -len(numbers), -root, place), numbers)
        for place, pattern in enumerate(table)
        for root in range(len(graph.readings))
        for numbers, _ in all_matches(graph, pattern.pattern, root)
        if not isinstance(pattern.check, Refusing) or pattern.check.takes(numbers)
    }


def check_greedy(
    graph: ReadingGraph,
    table: Sequence[CompositePattern],
    taken: Collection[int],
    chosen: Sequence[Composite],
) -> None:
    """Check that the chosen matches are those of a greedy choice.

    The greedy choice repeatedly takes the match with the least key among those whose operations are
    free; operations in ``taken`` are never free. Of several matches of a pattern at one root, any
    may be chosen.
    """
    places = {pattern.name: place for place, pattern in enumerate(table)}
    left = {(each.match.numbers[-1], places[each.name]): each.match.numbers for each in chosen}
    assert len(left) == len(chosen)
    used, options = set(taken), options_of(graph, table)
    while free := {(key, numbers) for key, numbers in options if used.isdisjoint(numbers)}:
        best = min(key for key, _ in free)
        numbers = left.pop((-best[2], best[3]))
        assert (best, numbers) in free
        used |= set(numbers)
    assert not left


@pytest.mark.parametrize(
    ("graph_of", "pattern_of"),
    [(random_graph, partial(random_pattern, alternating=0)), (random_line, random_sequence)],
    ids=["graphs", "lines"],
)
def test_composites_equal_a_greedy_choice_among_all_matches(
    graph_of: Callable[[random.Random], ReadingGraph],
    pattern_of: Callable[[random.Random], Pattern],
) -> None:
    """The composites are those of a greedy choice among all matches.

    Matches with a higher priority are taken first, then larger matches, then matches with a later
    root, then those of an earlier pattern.
    """
    rng = random.Random(8)
    several = 0
    for _ in range(500):
        where, table = graph_of(rng), random_table(rng, pattern_of)
        taken = {n for n in range(len(where.readings)) if rng.random() < 0.1}
        chosen = find_composites(where, table, taken)
        roots = [each.match.numbers[-1] for each in chosen]
        assert roots == sorted(roots)
        check_greedy(where, table, taken, chosen)
        several += len(chosen) > 1
    assert several > 50
