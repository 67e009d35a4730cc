"""Matches of patterns, against all injective maps of patterns onto graphs, and their choice."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence

import pytest

from rammer_mlir.errors import OptionError, PassError
from rammer_mlir.passes.regions.expressions import COMMUTATIVE
from rammer_mlir.passes.regions.match import Match
from rammer_mlir.passes.regions.matching import ReadingGraph, find_composites, matches
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
    """Read lines ``output = kind input...``; the last output is used elsewhere too."""
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
    strided = Reading("conv2d", (operand("x"),), operand("y"), {"strides": (2, 2)})
    only = ReadingGraph([strided], {"y"})
    for strides, count in (((2, 2), 1), ((1, 1), 0)):
        pattern = op("conv2d", wildcard(), strides=strides)
        assert len(list(matches(only, pattern, 0))) == count
    assert len(list(matches(only, op("conv2d", wildcard(), groups=1), 0))) == 0
    assert len(list(matches(only, op(("conv1d", "conv2d")), 0))) == 1


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
    """Yield every choice of options, for each pattern with alternatives."""
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


def all_matches(graph: ReadingGraph, pattern: Pattern, root: int) -> set[tuple[int, ...]]:
    """Return the operations of all matches, by trying all injective maps."""
    found: set[tuple[int, ...]] = set()
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
        for numbers in itertools.permutations(range(len(graph.readings)), len(ops)):
            image = dict(zip(ops, numbers, strict=True))
            if image[top] == root and fits(graph, image, resolved):
                found.add(tuple(sorted(numbers)))
    return found


def fits(graph: ReadingGraph, image: Mapping[Pattern, int], resolved: object) -> bool:
    """Whether a map respects kinds, operands in some order, names, and lets nothing escape."""
    inside = set(image.values())
    for each, number in image.items():
        reading = graph.readings[number]
        assert isinstance(each, Op)
        if reading.kind not in each.kinds or len(reading.inputs) != len(each.operands or ()):
            return False
    (top,) = [number for number in list(image.values())[:1]]
    if any(graph.escapes(number, inside) for number in inside - {top}):
        return False
    orders = [
        [reading.inputs, reading.inputs[::-1]] if reading.kind in COMMUTATIVE else [reading.inputs]
        for reading in (graph.readings[number] for number in image.values())
    ]
    return any(
        agree(graph, image, resolved, dict(zip(image, order, strict=True)))
        for order in itertools.product(*orders)
    )


def agree(
    graph: ReadingGraph,
    image: Mapping[Pattern, int],
    resolved: object,
    order: Mapping[Pattern, Sequence[Operand]],
) -> bool:
    assert callable(resolved)
    inside, values = set(image.values()), dict[object, object]()
    for each, inputs in order.items():
        assert isinstance(each, Op)
        for part, given in zip(map(resolved, each.operands or ()), inputs, strict=True):
            if isinstance(part, Op):
                if graph.producer(given.value) != image[part]:
                    return False
                continue
            assert isinstance(part, Wildcard)
            if graph.producer(given.value) in inside or (part.is_constant > given.is_constant):
                return False
            for key in (part, part.name) if part.name else (part,):
                if values.setdefault(key, given.value) != given.value:
                    return False
    return True


def random_graph(rng: random.Random) -> ReadingGraph:
    lines: list[str] = []
    known = ["x", "w", "b"]
    for number in range(rng.randint(2, 7)):
        kind = rng.choice(("add", "sub", "relu", "add"))
        inputs = [rng.choice(known[-4:]) for _ in range(1 if kind == "relu" else 2)]
        known.append(f"t{number}")
        lines.append(f"t{number} = {kind} {' '.join(inputs)}")
    return graph("\n".join(lines), *(rng.choice(known) for _ in range(rng.randint(0, 1))))


def random_pattern(rng: random.Random) -> Pattern:
    """Return a pattern of up to four operations, with shared parts and alternatives."""
    leaves: list[Pattern] = [wildcard("x"), wildcard(), constant("w"), wildcard("y")]
    made: list[Pattern] = []
    for _ in range(rng.randint(1, 4)):
        choices = leaves + made * 2
        kind = rng.choice(("add", "sub", "relu"))
        count = 1 if kind == "relu" else 2
        # The last part is always used, so that the pattern is connected.
        inputs = [*made[-1:], *rng.choices(choices, k=count)][:count]
        rng.shuffle(inputs)
        each = op(kind, *inputs)
        if rng.random() < 0.3 and made:
            each = alternatives(each, made[-1])
        made.append(each)
    return made[-1]


def test_matching_equals_all_injective_maps() -> None:
    rng = random.Random(5)
    hits = 0
    for _ in range(1500):
        where, pattern = random_graph(rng), random_pattern(rng)
        for root in range(len(where.readings)):
            found = {match.numbers for match in matches(where, pattern, root)}
            assert found == all_matches(where, pattern, root)
            hits += bool(found)
    assert hits > 500
