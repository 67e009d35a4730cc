"""Tests that the evaluation of code generators counts, times and reports offloaded regions.

The models are small. The committed page of results must be complete, too; it compares the results
with those of the paper "Bring Your Own Codegen".
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from rammer_mlir.benchmarks import __main__ as bench
from rammer_mlir.benchmarks import report
from rammer_mlir.benchmarks.child import Failure, in_child
from rammer_mlir.benchmarks.comparison import Array
from rammer_mlir.benchmarks.contenders.offloaded import Offloaded, run_seconds
from rammer_mlir.benchmarks.decoding import decode
from rammer_mlir.benchmarks.models import ALL_MODELS, build
from rammer_mlir.benchmarks.models.counts import count
from rammer_mlir.benchmarks.models.ssd import OUTPUTS
from rammer_mlir.benchmarks.offload.__main__ import PAGE, main
from rammer_mlir.benchmarks.offload.agreement import agreement
from rammer_mlir.benchmarks.offload.integration import integration_lines
from rammer_mlir.benchmarks.offload.measure import (
    Measured,
    OffloadRequest,
    OffloadResult,
    Outcome,
    measure_offload,
)
from rammer_mlir.benchmarks.offload.paper import INTEGRATIONS, PUBLISHED
from rammer_mlir.benchmarks.offload.partition import Job, Partition, partition
from rammer_mlir.benchmarks.offload.report import page
from rammer_mlir.benchmarks.offload.verdict import error_text, summary, verdict, verdict_table
from rammer_mlir.benchmarks.timing import Latency
from rammer_mlir.support.interleaved_timing import paired_medians
from rammer_mlir.timeline.spans import Span, Timeline

EXAMPLE = str(Path(__file__).parents[2] / "examples/your_own_codegen.py")

BROKEN = """
from rammer_mlir.codegens import Limits, register_codegen

class Broken:
    name = "broken"
    def patterns(self): return []
    def supports(self, reading): return reading.kind in ("matmul", "relu")
    def limits(self): return Limits()
    def worth(self, facts, device): return True
    def generate(self, region): raise ValueError("no registers left")

register_codegen(Broken())
"""


def only_products(_: argparse.Namespace) -> tuple[str, ...]:
    return ("products",)


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("plugin") / "broken.py"
    file.write_text(BROKEN)
    return str(file)


def counted(name: str, folder: Path, plugin: str, codegen: str = "products") -> Partition:
    """Return how code generators partition a small model, with the counts of its operations.

    The partition is made in another process, so that this one does not register the plug-in.

    Args:
        name: name of the model.
        folder: the folder for the model's file.
        plugin: path of the Python file that registers the code generator.
        codegen: name of the code generator.
    """
    file = folder / f"{name}.onnx"
    file.write_bytes(build(name, scale="small").SerializeToString())
    found = in_child(partition, Job(file, codegen, (plugin,)), 300)
    assert not isinstance(found, Failure), found.message
    return found


def test_all_of_a_perceptron_is_taken(tmp_path: Path) -> None:
    """All of a perceptron is offloaded: three products with biases, two of them with a ReLU.

    These are one region before cost-based partitioning, and three regions after it.
    """
    found = counted("mlp", tmp_path, EXAMPLE)
    assert (found.operations, found.readings, found.taken) == (8, 8, 8)
    assert (found.merged, found.split, found.generated) == (1, 3, 3)
    assert found.macs == found.taken_macs > 0
    assert found.lines > 50


TAKER = '''
from rammer_mlir.codegens import Limits, RegionCode, register_codegen

class Taker:
    """Takes everything, and counts on nobody to run its code."""
    name = "taker"
    def patterns(self): return []
    def supports(self, reading): return True
    def limits(self): return Limits()
    def worth(self, facts, device): return True
    def generate(self, region): return RegionCode("int f;", region.name)

register_codegen(Taker())
'''


@pytest.fixture(scope="module")
def taker(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("plugin") / "taker.py"
    file.write_text(TAKER)
    return str(file)


@pytest.mark.parametrize("name", ["inception_v3", "resnet50"])
def test_one_region_of_a_classifier(name: str, tmp_path: Path, taker: str) -> None:
    """A code generator that takes all operations computes a whole classifier in one region.

    Each multiply-add in the model's definition is counted once.
    """
    found = counted(name, tmp_path, taker, "taker")
    assert found.taken_macs == found.macs == count(build(name, scale="small")).flops // 2
    assert found.taken == found.readings == found.operations
    assert (found.merged, found.split, found.generated) == (1, 1, 1)


def test_a_detector_counts_its_host_steps_too(tmp_path: Path, taker: str) -> None:
    """Regions without multiply-adds are left to the host, as in the paper's Table 2.

    The count of operations includes those that the host evaluates between programs.
    """
    found = counted("ssd_300_resnet34", tmp_path, taker, "taker")
    model = build("ssd_300_resnet34", scale="small")
    assert found.taken_macs == found.macs == count(model).flops // 2
    assert 0 < found.taken < found.readings < found.operations
    assert found.split == found.generated == 1 < found.merged


def test_regions_without_code_are_not_taken(tmp_path: Path) -> None:
    """Regions for which the code generator has no code stay on the host, and do not count as taken.

    The code generator of ``EXAMPLE`` has no code for VGG's products, whose weights are transposed.
    """
    found = counted("vgg19", tmp_path, EXAMPLE)
    assert found.split == 3
    assert (found.generated, found.taken, found.taken_macs) == (0, 0, 0)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, broken: str) -> OffloadResult:
    request = OffloadRequest(
        "mlp", ("broken", "products"), (EXAMPLE, broken), "small", threads=2, budget=0.0
    )
    return measure_offload(request)


def test_each_way_is_timed_and_compared(measured: OffloadResult) -> None:
    assert measured.error is None
    _, outcome = measured.outcomes
    assert [run.name for run in outcome.runs] == ["onnxruntime", "host", "always", "cost"]
    assert outcome.reasons == []
    for run in outcome.runs:
        assert 0 < run.latency.low <= run.latency.median
        assert run.worst <= 1 and run.agreement is None
    always = outcome.run("always")
    assert always is not None and always.spent is not None and always.beginning is not None
    spent = always.spent
    parts = spent.foreign + spent.own + spent.copies + spent.invocation + spent.host
    assert spent.foreign > 0 and spent.rtasks >= 3
    assert parts == pytest.approx(spent.total)
    cost = outcome.run("cost")
    assert always.kept is None and cost is not None and cost.kept is not None
    assert always.digest is not None and cost.digest is not None
    host = outcome.run("host")
    assert host is not None and host.digest not in (None, always.digest)
    assert always.beginning.compiling > 0 and always.beginning.first_run > 0


def test_a_code_generator_that_fails_is_a_reason(measured: OffloadResult) -> None:
    outcome, _ = measured.outcomes
    assert outcome.partition is None
    assert [run.name for run in outcome.runs] == ["onnxruntime", "host"]
    assert len(outcome.reasons) == 3  # regions, always, cost
    assert all("ValueError: no registers left" in reason for reason in outcome.reasons)
    assert all("\n" not in reason for reason in outcome.reasons)


def test_the_page_and_its_json(measured: OffloadResult) -> None:
    text = page([replace(measured, request=replace(measured.request, model="vgg19"))])
    for part in (
        "| vgg19",
        "1 to 1",
        "paper: TensorRT",
        "- vgg19, broken: regions, always, cost: code gen",
        "0.92, 2.29",
    ):
        assert part in text
    assert "1.07, 2.06" not in text  # another model's
    assert decode(OffloadResult, json.loads(json.dumps(asdict(measured)))) == measured


def cells_of(text: str, heading: str, first: str) -> list[list[str]]:
    """Return the cells of each row of a table.

    The table is the first one after ``heading`` in ``text`` whose first column is ``first``.
    """
    lines = text[text.index(heading) :].splitlines()
    begin = next(n for n, line in enumerate(lines) if line.startswith(f"| {first} "))
    rows = [*itertools.takewhile(lambda line: line.startswith("|"), lines[begin + 2 :])]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def numbers_in(cells: Sequence[str]) -> list[float]:
    """Return the numbers in the text of some cells."""
    return [float(number) for number in re.findall(r"[0-9.]+", " ".join(cells))]


def check_tables(text: str, cases: list[tuple[str, str]]) -> None:
    """Check that each table has a row for each case in ``cases``, with the paper's numbers.

    ``text`` is the page with the tables. A case is a pair: a model, and the title of a code
    generator. The paper is "Bring Your Own Codegen".
    """
    shares = cells_of(text, "## Offloaded share", "model")
    regions = cells_of(text, "## Regions without", "model")
    begun = cells_of(text, "## Time to compile", "model")
    for found, column in (
        (shares, 1), (regions, 1), (begun, 1), (cells_of(text, "## Choice by", "model"), 2)
    ):  # fmt: skip
        assert [(row[0], row[column]) for row in found] == cases
    fpgas = {row[0]: row[1:] for row in cells_of(text, "The paper on FPGAs", "model")}
    assert fpgas.keys() == PUBLISHED.keys() & {model for model, _ in cases}
    for share, region in zip(shares, regions, strict=True):
        cells = (*share[-2:], *region[-2:])
        paper = PUBLISHED.get(share[0])
        if paper is None:
            assert cells == ("-",) * 4
            continue
        assert numbers_in(cells) == [
            paper.nodes, *paper.jetson, paper.merged, paper.split, paper.merged_ms, paper.split_ms
        ]  # fmt: skip
        for cell, published in zip(fpgas[share[0]], (paper.u250, paper.zynq), strict=True):
            assert numbers_in([cell]) == list(published or ()) and (published or cell == "-")
    lines = dict(cells_of(text, "## Lines of an integration", "integration"))
    assert {n: c for n, c in lines.items() if n.startswith("paper")} == {
        f"paper: {name}": str(number) for name, number in INTEGRATIONS.items()
    }


def test_the_page_has_a_row_for_each_model_with_the_papers_numbers(
    measured: OffloadResult,
) -> None:
    names = [*PUBLISHED, "squeezenet"]
    text = page([replace(measured, request=replace(measured.request, model=n)) for n in names])
    check_tables(text, [(n, codegen) for n in names for codegen in ("broken", "products")])


def test_the_page_of_results_is_whole() -> None:
    """The committed page of results has all models of the paper "Bring Your Own Codegen".

    For each model and code generator, it has the paper's numbers and a run with offloaded rTasks.
    Its list of differences from the paper equals the list that the function ``page`` writes.
    """
    text = PAGE.read_text(encoding="utf-8")
    rows = cells_of(text, "## Offloaded share", "model")
    assert {row[0] for row in rows} == {*PUBLISHED}
    times = cells_of(text, "## Time of a run", "model")
    assert len(times) == len(rows) and all(int(row[-1]) > 0 for row in times), "nothing offloaded"
    check_tables(text, [(row[0], row[1]) for row in rows])
    assert differences_in(text) == differences_in(page([]))


def differences_in(text: str) -> list[str]:
    """Return the items in the section of differences from the paper; ``text`` is the whole page."""
    heading = "## Differences from the paper's measurements, and their reasons\n"
    assert text.count(heading) == 1
    section = text.partition(heading)[2].partition("\n## ")[0].strip()
    assert section.startswith("- ")
    return [" ".join(item.split()) for item in section.removeprefix("- ").split("\n- ")]


def test_the_page_says_how_it_differs_from_the_paper_and_why(measured: OffloadResult) -> None:
    """Each difference from the paper is an item of a list on the page.

    Models without a result are named with the reason.
    """
    failed = OffloadResult(replace(measured.request, model="resnet50"), error="no memory left")
    text = page([measured, failed])
    items = differences_in(text)
    assert len(items) >= 9 and all(item.endswith(".") for item in items)
    for subject in ("Weights are random", "quantized", "devices", "one rTask on one vEU", "Relay"):
        assert any(subject in item for item in items), subject
    assert "- resnet50: no memory left" in text.partition("## Not measured")[2]


def test_the_command_keeps_results_and_goes_on(
    tmp_path: Path, measured: OffloadResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def measure(request: OffloadRequest) -> OffloadResult:
        asked.append(request.model)
        return replace(measured, request=request)

    monkeypatch.setattr("rammer_mlir.benchmarks.offload.__main__.measure_offload", measure)
    monkeypatch.setattr("rammer_mlir.benchmarks.offload.__main__.chosen_codegens", only_products)
    place = ["--folder", str(tmp_path / "kept"), "-o", str(tmp_path / "page.md")]
    assert main(["resnet*", *place]) == 0
    assert main(["resnet18", "vgg19", "--new", *place]) == 0
    assert asked == ["resnet18", "resnet50", "vgg19"]
    text = (tmp_path / "page.md").read_text()
    assert all(f"| {name}" in text for name in asked)


def test_benchmarks_have_a_part_for_it(
    tmp_path: Path, measured: OffloadResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure(request: OffloadRequest) -> OffloadResult:
        return replace(measured, request=request)

    monkeypatch.setattr(bench, "measure_offload", measure)
    monkeypatch.setattr(bench, "chosen_codegens", only_products)
    arguments = ["mlp", "--parts", "offload", "--threads", "1", "2", "--output", str(tmp_path)]
    assert bench.main(arguments) == 0
    kept = report.read(tmp_path / "bench.json").offloads
    assert [result.request.threads for result in kept] == [1, 2]
    assert kept[0].outcomes == measured.outcomes
    text = (tmp_path / "bench.md").read_text()
    assert "`cost` is at most 1.03" in text and text.count("| mlp") == 4
    assert "mlp, broken: regions, always, cost: " in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--codegens", "nobody"], "--codegens: expected one of .*; found 'nobody'"),
        (["--module-option", "other.a=1"], "--module-option 'other.a=1': expected NAME.OPTION=VAL"),
        (["--module-option", "products=1"], "--module-option 'products=1': expected NAME.OPTION=V"),
        (["--module-option", "products.a=1"], "module_options: unknown option 'products.a'"),
        (["alexnet"], "model: expected one of resnet18, .*; found 'alexnet'"),
        (["--threads", "0"], "--threads: expected at least 1, found 0"),
        (["-o", "/dev/null/page.md"], "--folder, --output: expected places to write to, found "),
        (["-o", "page.md"], "'.*vgg19.json': expected a result of this version, found another f"),
    ],
)
def test_bad_arguments_are_one_line(
    arguments: Sequence[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/vgg19.json").write_text('{"model": "vgg19"}')
    if "--codegens" not in arguments:
        monkeypatch.setattr(
            "rammer_mlir.benchmarks.offload.__main__.chosen_codegens", only_products
        )
    assert main(["--folder", "kept", "-o", "page.md", *arguments]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert re.search(message, error)


def timed(name: str, seconds: float) -> Measured:
    return Measured(name, Latency(seconds, seconds, seconds, 3), seconds, 0.0, 0.0)


@pytest.mark.parametrize(
    ("host", "always", "cost", "is_acceptable", "is_better"),
    [
        (1.0, 2.0, 1.02, True, False),
        (2.0, 1.0, 1.02, True, False),
        (1.0, 2.0, 1.04, False, False),
        (1.0, 1.1, 0.94, True, True),
    ],
)
def test_choice_by_cost_against_the_better_of_both(
    host: float, always: float, cost: float, is_acceptable: bool, is_better: bool
) -> None:
    runs = [timed("host", host), timed("always", always), timed("cost", cost)]
    outcome = Outcome("products", runs=runs)
    found = verdict(outcome)
    assert found is not None
    assert (found.is_acceptable, found.is_better) == (is_acceptable, is_better)
    result = OffloadResult(OffloadRequest("mlp", ("products",)), [outcome])
    assert f"in {int(is_acceptable)} of 1 cases" in summary([result])
    assert verdict(Outcome("products", runs=runs[:2])) is None


def test_options_are_in_tables_and_errors_beyond_f32_are_shares() -> None:
    request = OffloadRequest(
        "mlp", ("products",), module_options={"products.form": "a", "others.form": "b"}
    )
    assert request.options_of("products") == {"products.form": "a"}
    rough = replace(timed("always", 2.0), worst=40.0, scaled_error=0.004)
    runs = [timed("host", 1.0), rough, timed("cost", 1.0)]
    table = verdict_table([OffloadResult(request, [Outcome("products", runs=runs)])])
    assert "| products form=a |" in table
    assert "| 0.4 % of the largest element |" in table
    assert error_text(timed("always", 2.0)) == "0 of the tolerance"


def test_a_choice_of_no_region_is_the_hosts_program() -> None:
    """A choice that keeps no region is the host's program, so the host's latency is its latency.

    The choice's own measured latency, of an equal program, differs from the host's by noise only.
    """
    runs = [timed("host", 1.0), timed("always", 2.0), replace(timed("cost", 1.04), kept=0)]
    found = verdict(Outcome("products", runs=runs))
    assert found is not None and str(found) == "1.000 yes, host"
    found = verdict(Outcome("products", runs=[*runs[:2], replace(runs[2], kept=1)]))
    assert found is not None and str(found) == "1.040 no"
    wrong = [timed("host", 2.0), timed("always", 1.0), runs[2]]
    found = verdict(Outcome("products", runs=wrong))
    assert found is not None and str(found) == "2.000 no, host"


def test_a_choice_of_all_regions_is_the_program_with_all_regions() -> None:
    runs = [
        timed("host", 2.0),
        replace(timed("always", 1.0), digest="a"),
        replace(timed("cost", 1.1), kept=3, digest="a"),
    ]
    assert str(verdict(Outcome("products", runs=runs))) == "1.000 yes, always"
    other = replace(runs[2], digest="b")
    assert str(verdict(Outcome("products", runs=[*runs[:2], other]))) == "1.100 no"
    unknown = [replace(run, digest=None) for run in runs]
    assert str(verdict(Outcome("products", runs=unknown))) == "1.100 no"


def test_without_regions_all_choices_are_one_program() -> None:
    runs = [replace(timed(*run), digest="a") for run in (("host", 1.1), ("always", 1.0))]
    cost = replace(timed("cost", 1.2), kept=0, digest="a")
    assert str(verdict(Outcome("products", runs=[*runs, cost]))) == "1.000 yes, host"
    other = replace(runs[1], digest="b")
    assert str(verdict(Outcome("products", runs=[runs[0], other, cost]))) == "1.100 no, host"


def digest(arguments: tuple[Path, str]) -> str | None:
    path, codegens = arguments
    return Offloaded(path, 1, codegens, "always", (EXAMPLE,)).digest()


def test_equal_programs_have_equal_digests(tmp_path: Path) -> None:
    """Equal programs that separate processes compile have equal digests."""
    path = tmp_path / "mlp.onnx"
    onnx.save(build("mlp", scale="small"), path)
    first, second, host = (
        in_child(digest, (path, name), 120) for name in ("products", "products", "")
    )
    assert isinstance(first, str) and first == second
    assert isinstance(host, str) and host != first


def test_time_of_a_region_that_was_split_is_the_code_generators() -> None:
    first = (
        Span(0, 0.0, 0.003, "rtask", "first", "maker_1_0_x0_b", count=1, module="maker_1_0"),
        Span(0, 0.003, 0.004, "rtask", "second", "maker_2_x0_b", count=1, module="maker_2"),
        Span(0, 0.004, 0.006, "rtask", "third", "matmul_1_t0_b", count=4),
    )
    second = (Span(1, 0.0, 0.006, "barrier", "barrier"),)
    found = run_seconds(0.006, [Timeline("a run", (first, second))])
    assert found.foreign == pytest.approx(0.002) and found.rtasks == 2
    assert found.own == pytest.approx(0.001) and found.invocation == pytest.approx(0.003)


def test_times_are_compared_within_rounds() -> None:
    """Times are compared within a round, so that a slow round changes no ratio."""
    found = paired_medians({"a": [[1.0, 1.0, 9.0], [3.0], [1.0]], "b": [[1.1], [3.3, 3.3], [1.2]]})
    assert found == {"a": 1.0, "b": pytest.approx(1.1)}
    assert paired_medians({}) == {}


def detections(scores: list[float], left: list[float]) -> dict[str, Array]:
    boxes = np.array([[[x, 0, x + 10, 10] for x in left]], np.float32)
    labels = np.ones((1, len(left)), np.float32)
    return dict(zip(OUTPUTS, (np.array([scores], np.float32), boxes, labels), strict=True))


def test_detections_agree_in_any_order() -> None:
    expected = detections([0.9, 0.8, 0.7], [0, 50, 100])
    assert agreement(expected, detections([0.9, 0.8, 0.7], [50, 0, 100])) == pytest.approx(1 / 3)
    assert agreement(expected, detections([0.801, 0.799, 0.7], [50, 50, 101])) == pytest.approx(
        2 / 3
    )
    assert agreement({"y": expected["boxes"]}, {"y": expected["boxes"]}) is None


def test_models_of_the_paper_are_there() -> None:
    assert len(PUBLISHED) == 9
    assert ALL_MODELS.keys() >= PUBLISHED.keys()


def test_lines_of_a_folder() -> None:
    class Here:
        """A code generator that is defined in this file, not in a folder of its own."""

    lines = Path(__file__).read_text().splitlines()
    assert integration_lines(Here()) == sum(bool(line.strip()) for line in lines)
