"""Tests that published results have the right ratios, means and plot.

The generated part of the README shows the stored results.
"""

from pathlib import Path

import pytest

from rammer_mlir.benchmarks import publish, report
from rammer_mlir.benchmarks.bench import Missing, Request, Result, Timing
from rammer_mlir.benchmarks.latencies import missing_lines, ratio_table, ratios, summary_table
from rammer_mlir.benchmarks.timing import Latency
from rammer_mlir.errors import OptionError

Times = dict[tuple[str, int], float]


def result(model: str, seconds: Times) -> Result:
    """Return a benchmark's result for ``model``, as if it had been measured.

    ``seconds`` has the latency for each pair of a contender and a number of threads.
    """
    timings = [Timing(name, threads, Latency(value, value, value, 5), 0.5)
               for (name, threads), value in seconds.items()]  # fmt: skip
    return Result(Request(model, policies=("wavefront",)), timings=timings)


RESULTS = [
    result("mlp", {("onnxruntime", 1): 8.0, ("openvino", 1): 2.0, ("wavefront", 1): 4.0,
                   ("onnxruntime", 2): 1.0, ("wavefront", 2): 2.0}),
    result("alexnet", {("onnxruntime", 1): 2.0, ("iree", 1): 40.0, ("wavefront", 1): 4.0,
                       ("onnxruntime", 2): 8.0, ("openvino", 2): 4.0, ("wavefront", 2): 1.0}),
    Result(Request("attention", policies=("wavefront",)), error="failed"),
]  # fmt: skip


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]


def test_a_ratio_above_one_means_that_we_are_faster() -> None:
    found = {(r.model, r.threads, r.contender): r.value for r in ratios(RESULTS)}
    assert found == {
        ("mlp", 1, "onnxruntime"): 2.0,
        ("mlp", 1, "openvino"): 0.5,
        ("mlp", 2, "onnxruntime"): 0.5,
        ("alexnet", 1, "onnxruntime"): 0.5,
        ("alexnet", 1, "iree"): 10.0,
        ("alexnet", 2, "onnxruntime"): 8.0,
        ("alexnet", 2, "openvino"): 4.0,
    }


def test_the_summary_has_geometric_means_and_the_smallest_ratio() -> None:
    assert rows(summary_table(RESULTS))[2:] == [
        ["1", "onnxruntime / wavefront", "2", "1.00", "0.50 (alexnet)", "1"],
        ["1", "openvino / wavefront", "1", "0.50", "0.50 (mlp)", "1"],
        ["1", "iree / wavefront", "1", "10.00", "10.00 (alexnet)", "0"],
        ["2", "onnxruntime / wavefront", "2", "2.00", "0.50 (mlp)", "1"],
        ["2", "openvino / wavefront", "1", "4.00", "4.00 (alexnet)", "0"],
    ]


def test_what_was_not_measured_is_a_dash() -> None:
    assert rows(ratio_table(RESULTS, [2]))[2:] == [
        ["mlp", "2", "1000.000", "-", "2000.000", "0.50", "-"],
        ["alexnet", "2", "8000.000", "4000.000", "1000.000", "8.00", "4.00"],
        ["attention", "2", "-", "-", "-", "-", "-"],
    ]


def test_equal_reasons_stand_together() -> None:
    missing = [Missing("pytorch", threads, "pytorch: none") for threads in (1, 2)]
    others = [Missing("iree", 1, "iree: too slow")]
    results = [Result(Request(name), missing=missing) for name in ("mlp", "alexnet", "vgg")]
    assert missing_lines([*results, Result(Request("mlp"), missing=others)]) == [
        "pytorch: none (6 measurements)",
        "iree: too slow (mlp, 1 threads)",
    ]


def test_publishing_writes_the_results_and_the_readmes_part(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    source, results = tmp_path / "bench.json", tmp_path / "results"
    results.mkdir()
    source.write_text(report.encode(report.Report(RESULTS)))
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{publish.BEGIN}\nold\n{publish.END}\nafter\n")
    drawings: list[str] = []
    for _ in range(2):  # the second time changes nothing
        publish.publish(source, "box", results, readme)
        drawings.append((results / "box.svg").read_text())
        assert all(name in drawings[-1] for name in ("mlp", "alexnet", "attention", "openvino"))
        text = readme.read_text()
        assert text.startswith("before\n") and text.endswith(f"{publish.END}\nafter\n")
        assert "old" not in text and "| 2       | onnxruntime / wavefront |" in text
        assert "results/box.svg" in text and "results/box.md" in text
        assert report.read(results / "box.json") == report.read(source)
        assert (results / "box.md").read_text().startswith("![ratios](box.svg)")
    assert drawings[0] == drawings[1]


def test_what_cannot_be_published_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "bench.json"
    with pytest.raises(OptionError, match=r"expected what the benchmark writes.*run make bench"):
        publish.publish(source, "box", tmp_path)
    source.write_text('{"models": [{"request": 1}]}')
    with pytest.raises(OptionError, match="expected what the benchmark writes"):
        publish.publish(source, "box", tmp_path)
    source.write_text(report.encode(report.Report()))
    with pytest.raises(OptionError, match="expected latencies of models, found none"):
        publish.publish(source, "box", tmp_path)
    with pytest.raises(OptionError, match="expected the lines"):
        publish.replace_part("no marks here", "part")


def test_the_readme_shows_what_was_kept() -> None:
    """The README's generated part equals what publishing makes from the stored file of results."""
    readme = (publish.ROOT / "README.md").read_text()
    part = readme.partition(publish.BEGIN)[2].partition(publish.END)[0].strip()
    if not part:
        pytest.skip("nothing is shown yet")
    name = part.rpartition("[")[2].partition(".md]")[0]
    kept = report.read(publish.RESULTS / f"{name}.json")
    assert publish.replace_part(readme, publish.readme_part(kept, name)) == readme
