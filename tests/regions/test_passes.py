"""Tests that the passes that form regions put the right operations into regions.

The limits of a code generator are kept, and its errors are reported in one line.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from rammer_mlir import dialects
from rammer_mlir.bindings import ir
from rammer_mlir.errors import OptionError, PassError, RammerError
from rammer_mlir.passes.ir.entry import computations, entry_block, symbol_name
from rammer_mlir.passes.manager import run_pipeline
from rammer_mlir.passes.regions import readings
from rammer_mlir.passes.regions.codegen import CODEGENS, RegionFacts, register_codegen
from rammer_mlir.passes.regions.interval_partition import Limits
from rammer_mlir.passes.regions.intervals import interval_sizes
from rammer_mlir.passes.regions.match import Match
from rammer_mlir.passes.regions.patterns import CompositePattern, op, wildcard
from rammer_mlir.passes.regions.reading import Reading
from rammer_mlir.passes.regions.readings import read
from rammer_mlir.passes.regions.region_graph import RegionGraph
from rammer_mlir.passes.regions.weights import Weights
from rammer_mlir.scheduling.device_costs import Device


class Toy:
    """A code generator whose patterns, supported operations and limits are set by tests."""

    name: ClassVar[str] = "toy"

    def __init__(self) -> None:
        self.table: list[CompositePattern] = []
        self.kinds: tuple[str, ...] = ("matmul", "add")
        self.held = Limits()
        self.facts: list[RegionFacts] = []
        self.device: Device | None = None

    def patterns(self) -> Sequence[CompositePattern]:
        return self.table

    def supports(self, reading: Reading) -> bool:
        if not self.kinds:
            raise KeyError("kind")
        return reading.kind in self.kinds

    def limits(self) -> Limits:
        return self.held

    def worth(self, facts: RegionFacts, device: Device) -> bool:
        self.facts.append(facts)
        self.device = device
        return True


@pytest.fixture
def toy() -> Iterator[Toy]:
    codegen = Toy()
    register_codegen(codegen)
    yield codegen
    CODEGENS.unregister("toy")


def chain(*steps: str) -> str:
    """Return a program of matmuls, additions and exponentials that each read the previous result.

    A step is "matmul", "exp", or "add" with the index of an earlier value that it also reads; value
    0 is the input.
    """
    kind = "tensor<4x4xf32>"
    lines = [
        f"func.func @main(%v0: {kind}, %w: {kind}) -> {kind} {{",
        "%zero = arith.constant 0.0 : f32",
        f"%e = tensor.empty() : {kind}",
        f"%f = linalg.fill ins(%zero : f32) outs(%e : {kind}) -> {kind}",
    ]
    for number, step in enumerate(steps, 1):
        name, _, other = step.partition(" ")
        second = "%w" if name == "matmul" else f"%v{other}"
        operands = f"%v{number - 1}" if name == "exp" else f"%v{number - 1}, {second}"
        types = kind if name == "exp" else f"{kind}, {kind}"
        out = "%f" if name == "matmul" else "%e"
        lines.append(
            f"%v{number} = linalg.{name} ins({operands} : {types}) outs({out} : {kind}) -> {kind}"
        )
    return "\n".join([*lines, f"return %v{len(steps)} : {kind}", "}"])


def run(text: str, *passes: str) -> ir.Module:
    context = ir.Context()
    dialects.register(context)
    with context, ir.Location.unknown():
        module = ir.Module.parse(text)
    run_pipeline(module, f"builtin.module({','.join(('linalg-generalize-named-ops', *passes))})")
    return module


def regions(module: ir.Module) -> list[int | None]:
    """Return the index of the region of each unit; None for a unit without a region."""
    units = RegionGraph.of(module).units
    return [None if unit.region is None else unit.region.number for unit in units]


ANNOTATE = "rtask-annotate-regions{codegens=toy}"
MERGE = "rtask-merge-regions"


def test_of_six_regions_one_has_products(toy: Toy) -> None:
    steps = [
        "add 0",
        "exp",
        "add 0",
        "exp",
        "matmul",
        "exp",
        "add 0",
        "exp",
        "add 0",
        "exp",
        "add 0",
    ]
    merged = run(chain(*steps), ANNOTATE, MERGE)
    assert len({number for number in regions(merged) if number is not None}) == 6
    split = run(chain(*steps), ANNOTATE, MERGE, "rtask-split-regions")
    assert regions(split) == [0 if step == "matmul" else None for step in steps]


def test_what_a_region_holds(toy: Toy) -> None:
    run(chain("matmul", "add 0", "matmul"), ANNOTATE, MERGE, "rtask-split-regions{num-veus=3}")
    (facts,) = toy.facts
    assert [reading.kind for reading in facts.readings] == ["matmul", "add", "matmul"]
    assert (facts.operations, facts.macs) == (3, 2 * 64)
    # The input, the weights and three results; all but two results are outside.
    assert (facts.bytes, facts.transfer_bytes, facts.values) == (5 * 64, 3 * 64, 3)
    assert toy.device is not None
    assert toy.device.num_veus == 3


def test_limits_of_the_code_generator_and_of_the_pass(toy: Toy) -> None:
    steps = ["matmul", "matmul", "matmul", "matmul"]
    toy.held = Limits(operations=3)
    assert regions(run(chain(*steps), ANNOTATE, MERGE, "rtask-split-regions")) == [0, 1, 1, 1]
    two = run(chain(*steps), ANNOTATE, MERGE, "rtask-split-regions{operations=2}")
    assert regions(two) == [0, 0, 1, 1]
    toy.held = Limits(bytes=4 * 64)
    assert regions(run(chain(*steps), ANNOTATE, MERGE, "rtask-split-regions")) == [0, 0, 1, 1]
    nothing = run(chain(*steps), ANNOTATE, MERGE, "rtask-split-regions{bytes=100}")
    assert regions(nothing) == [None] * 4


def test_sizes_of_intervals_are_those_of_their_facts(toy: Toy) -> None:
    rng = random.Random(2)
    kinds = ("matmul", "add", "exp")
    steps = [f"{rng.choice(kinds)} {rng.randrange(n + 1)}" for n in range(14)]
    toy.kinds = kinds
    module = run(chain(*(s if s[0] == "a" else s.split()[0] for s in steps)), ANNOTATE)
    graph = RegionGraph.of(module)
    count = len(graph.units)
    for limits in (Limits(), Limits(operations=3), Limits(bytes=300), Limits(values=4)):
        within = [
            limits.hold(end - begin, *three(graph, begin, end)[::2]) for begin, end in pairs(count)
        ]
        asked: list[bool] = []
        for end, sizes in enumerate(interval_sizes(graph, range(count), limits), 1):
            first = end - len(sizes.bytes)
            asked += [False] * first
            for begin, fits in enumerate(sizes.within(limits).tolist(), first):
                found = tuple(
                    int(each[begin - first])
                    for each in (sizes.bytes, sizes.transfer_bytes, sizes.values)
                )
                assert found == three(graph, begin, end)
                asked.append(fits)
        assert asked == within and (True in within)
        assert limits == Limits() or False in within


def three(graph: RegionGraph, begin: int, end: int) -> tuple[int, int, int]:
    facts = graph.facts(list(range(begin, end)))
    return facts.bytes, facts.transfer_bytes, facts.values


def pairs(count: int) -> list[tuple[int, int]]:
    return [(begin, end) for end in range(1, count + 1) for begin in range(end)]


def test_a_region_of_thousands_of_units_is_cut_in_seconds(toy: Toy) -> None:
    toy.held = Limits(values=20)
    module = run(chain(*["matmul", "add 0"] * 1000), ANNOTATE, MERGE)
    begin = time.process_time()
    run_pipeline(module, "builtin.module(rtask-split-regions)")
    assert time.process_time() - begin < 10
    sizes = Counter(regions(module)).values()
    assert len(sizes) == 1  # two of each step cross no boundary of the whole
    toy.held = Limits(bytes=64 * 20)
    run_pipeline(module, "builtin.module(rtask-split-regions)")
    assert time.process_time() - begin < 20
    assert len(set(regions(module))) > 100


def sums(count: int) -> str:
    """Return a program that adds ``count`` arguments."""
    kind = "tensor<4xf32>"
    arguments = ", ".join(f"%a{n}: {kind}" for n in range(count))
    lines = [f"func.func @main({arguments}) -> {kind} {{", f"%e = tensor.empty() : {kind}"]
    total = "%a0"
    for n in range(1, count):
        operands = f"ins({total}, %a{n} : {kind}, {kind}) outs(%e : {kind})"
        lines.append(f"%s{n} = linalg.add {operands} -> {kind}")
        total = f"%s{n}"
    return "\n".join([*lines, f"return {total} : {kind}", "}"])


@pytest.mark.parametrize(("count", "is_taken"), [(94, True), (95, False)])
def test_a_composite_with_too_many_values_stays_on_the_host(
    toy: Toy, count: int, is_taken: bool
) -> None:
    """A composite with more values than an operation may have operands stays on the host.

    A region's inputs, results and scratch memory are operands of one operation.
    """
    pattern = wildcard()
    for _ in range(count - 1):
        pattern = op("add", pattern, wildcard())
    toy.kinds, toy.table = ("nothing",), [CompositePattern("toy.sum", pattern)]
    marking = ("rtask-match-composites{table=toy}", ANNOTATE, MERGE)
    found = regions(run(sums(count), *marking, "rtask-split-regions{min-macs=0}"))
    assert found == [0 if is_taken else None]


def test_merged_regions_keep_to_the_limit_of_operands(toy: Toy) -> None:
    rng = random.Random(4)
    toy.kinds = ("add",)
    largest = 0
    for _ in range(12):
        steps = [f"add {rng.randrange(n + 1)}" if rng.random() < 0.9 else "exp" for n in range(16)]
        module = run(chain(*steps), ANNOTATE, "rtask-merge-regions{operands=5 siblings=true}")
        graph = RegionGraph.of(module)
        for numbers in graph.regions().values():
            operands = len(graph.inputs(numbers)) + len(graph.outputs(numbers))
            assert operands <= 5
            largest = max(largest, len(numbers) if operands == 5 else 0)
    assert largest > 2


def test_operations_are_read_once(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Consecutive passes that only set marks compute the reading of each operation once for all.

    Passes that follow any other pass in the pipeline compute the readings again.
    """
    found: list[str] = []

    def counted(op: ir.OpView, weights: Weights | None = None) -> Reading | None:
        found.append(op.operation.name)
        return read(op, weights)

    monkeypatch.setattr(readings, "read", counted)
    text = chain("exp", "matmul", "add 1")
    run(text, ANNOTATE)
    once = len(found)
    module = run(text, ANNOTATE, MERGE, "rtask-split-regions{min-macs=0}")
    assert len(found) == 2 * once > 0
    run_pipeline(module, "builtin.module(canonicalize)")
    found.clear()
    run_pipeline(module, f"builtin.module({MERGE})")
    once = len(found)
    run_pipeline(module, f"builtin.module({MERGE},canonicalize,{MERGE})")
    assert len(found) == 3 * once


def test_siblings_merge_only_if_asked(toy: Toy) -> None:
    text = chain("exp", "matmul", "exp", "add 1")
    toy.kinds = ("matmul", "exp")
    assert regions(run(text, ANNOTATE, MERGE)) == [0, 0, 0, None]
    steps = chain("exp", "add 0", "exp", "add 1")
    toy.kinds = ("add",)
    assert regions(run(steps, ANNOTATE, "rtask-merge-regions{siblings=true}")) == [None, 0, None, 1]


def test_the_passes_give_the_same_regions_again(toy: Toy) -> None:
    steps = chain("matmul", "add 0", "exp", "matmul", "add 1")
    texts = {
        str(run(steps, ANNOTATE, MERGE, "rtask-split-regions{operations=2}")) for _ in range(3)
    }
    assert len(texts) == 1
    (text,) = texts
    assert str(run(text, ANNOTATE, MERGE, "rtask-split-regions{operations=2}")) == text


def test_functions_of_regions_are_no_computations_of_the_host(toy: Toy) -> None:
    toy.table = [CompositePattern("toy.sum", op("add", op("matmul"), wildcard()))]
    module = run(
        chain("matmul", "add 0", "exp"),
        "rtask-match-composites{table=toy}", ANNOTATE, "rtask-outline-regions",
        "rtask-form-operators",
    )  # fmt: skip
    assert [symbol_name(function) for function in computations(module)] == ["elementwise_0"]
    names = [o.operation.name for o in entry_block(module).operations]
    assert names == ["rtask.operator", "rtask.operator", "func.return"]


OPTIONS = {
    "rtask-annotate-regions": r"expected codegens=NAME,\.\.\., found none",
    "rtask-annotate-regions{codegens=absent}": "unknown code generator 'absent': expected one",
    "rtask-match-composites": r"expected table=CODEGEN,\.\.\. or script=FILE, found neither",
    "rtask-match-composites{table=absent}": "unknown code generator 'absent'",
    "rtask-match-composites{script=/absent.mlir}": "expected a file of MLIR, found '/absent",
    "rtask-merge-regions{operands=96}": "operands: expected 2 to 95, found 96",
    "rtask-split-regions{min-macs=-1}": "min-macs: expected at least 0, found -1",
    "rtask-split-regions{device=absent}": "unknown device 'absent'",
}


@pytest.mark.parametrize("passes", OPTIONS)
def test_options_are_checked(toy: Toy, passes: str) -> None:
    with pytest.raises(RammerError, match=OPTIONS[passes]):
        run(chain("add 0"), passes)


def test_a_failing_code_generator_is_one_line(toy: Toy) -> None:
    toy.kinds = ()
    message = "code generator 'toy': expected supports to succeed, found KeyError: 'kind'; mend it"
    with pytest.raises(PassError, match=message):
        run(chain("add 0"), ANNOTATE)


def test_composites_are_named_after_their_code_generator(toy: Toy) -> None:
    toy.table = [CompositePattern("other.sum", op("add"))]
    with pytest.raises(
        PassError, match=r"expected composites named 'toy\.NAME', found 'other.sum'"
    ):
        run(chain("add 0"), "rtask-match-composites{table=toy}")


def test_a_failing_check_is_one_line(toy: Toy) -> None:
    def check(match: Match) -> bool:
        return match["absent"].rank == 2

    toy.table = [CompositePattern("toy.sum", op("add"), check)]
    with pytest.raises(PassError, match=r"pattern 'toy\.sum': expected its check"):
        run(chain("add 0"), "rtask-match-composites{table=toy}")


def test_code_generators_are_checked_when_they_are_registered() -> None:
    broken: Any = type("Broken", (), {"name": "broken"})()
    with pytest.raises(OptionError, match="expected a code generator, with a name and functions"):
        register_codegen(broken)
    dotted: Any = type("Dotted", (Toy,), {"name": "a.b"})()
    with pytest.raises(OptionError, match="expected a name of letters, digits, '_' and '-'"):
        register_codegen(dotted)
    misspelt: Any = type("Misspelt", (Toy,), {"prepair": print})()
    with pytest.raises(OptionError, match="expected 'prepare', found 'prepair', which nothing"):
        register_codegen(misspelt)


SCRIPT = """
module attributes {transform.with_named_sequence} {
  transform.named_sequence @is_product(%op: !transform.any_op {transform.readonly})
      -> !transform.any_op {
    %0 = transform.match.structured failures(propagate) %op
        : (!transform.any_op) -> !transform.any_op {
    ^bb0(%arg: !transform.any_op):
      transform.match.structured.body %arg {contraction = ["arith.mulf", "arith.addf"]}
          : !transform.any_op
      transform.match.structured.yield %arg : !transform.any_op
    }
    transform.yield %0 : !transform.any_op
  }
  transform.named_sequence @mark(%op: !transform.any_op {transform.readonly}) {
    ANNOTATE
    transform.yield
  }
  transform.named_sequence @__transform_main(%m: !transform.any_op) {
    transform.foreach_match in %m @is_product -> @mark : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
"""
NAMED = """
    %name = transform.param.constant "toy.product" -> !transform.any_param
    transform.annotate %op "rtask.composite" = %name : !transform.any_op, !transform.any_param
"""
UNNAMED = 'transform.annotate %op "rtask.composite" : !transform.any_op'


FAILING = """
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%m: !transform.any_op) {
    %0 = transform.get_parent_op %m {op_name = "func.func"}
        : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
"""


def test_what_a_script_annotates_is_a_composite(toy: Toy, tmp_path: Path) -> None:
    path = tmp_path / "script.mlir"
    path.write_text(SCRIPT.replace("ANNOTATE", NAMED))
    toy.kinds = ("none",)
    steps = chain("matmul", "add 0", "matmul")
    module = run(steps, f"rtask-match-composites{{script={path}}}", ANNOTATE)
    units = RegionGraph.of(module).units
    assert [u.composite and u.composite.name for u in units] == ["toy.product", None, "toy.product"]
    assert regions(module) == [0, None, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            SCRIPT.replace("ANNOTATE", UNNAMED),
            "expected a name, found none; give transform.annotate",
        ),
        ("module {}", "expected a transform.named_sequence @__transform_main, found none"),
        ("modul {}", "script '.*': expected MLIR, found"),
        (FAILING, "script '.*': expected it to succeed, found"),
    ],
)
def test_scripts_that_are_none(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "script.mlir"
    path.write_text(text)
    with pytest.raises(PassError, match=message) as caught:
        run(chain("matmul"), f"rtask-match-composites{{script={path}}}")
    assert "\n" not in str(caught.value)
