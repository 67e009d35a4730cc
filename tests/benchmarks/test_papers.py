"""Tests that the committed page of the papers' results has the numbers that the code computes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rammer_mlir.benchmarks.papers.__main__ import main
from rammer_mlir.benchmarks.papers.catalog import STUDIES
from rammer_mlir.benchmarks.papers.ios import batches, strategies
from rammer_mlir.benchmarks.papers.page import SECTIONS, is_measured, page, plots
from rammer_mlir.benchmarks.papers.rammer import gpu_runs, kernel_times
from rammer_mlir.benchmarks.papers.rammer.gpu_modules import gpu_module
from rammer_mlir.benchmarks.papers.rammer.gpu_tables import figure_12
from rammer_mlir.benchmarks.papers.study import Case, Records, Study, measure_all, read_records
from rammer_mlir.errors import OptionError
from rammer_mlir.scheduling.devices.catalog import find_device
from tests.test_layering import ROOT

DOCS = ROOT / "docs"
V100 = find_device(gpu_runs.DEVICE).device()
TIMES = {"search seconds"}
"""Figures of untimed studies that differ from machine to machine."""
ORIGIN = {"commit", "date", "processor"}

QUICK: list[tuple[Study[Any], Case]] = [
    (study, case) for study in STUDIES if not study.is_timed for case in study.quick
]


@pytest.fixture(scope="module")
def committed() -> Records:
    return read_records(DOCS / "papers.json")


def leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Yield the path and the value of each leaf of nested dicts and lists.

    Values whose keys are in ``TIMES`` are left out: they differ from machine to machine.
    """
    if isinstance(value, dict):
        for key, part in value.items():
            if key not in TIMES:
                yield from leaves(part, f"{path}/{key}")
    elif isinstance(value, list | tuple):
        for number, part in enumerate(value):
            yield from leaves(part, f"{path}/{number}")
    else:
        yield path, value


@pytest.mark.parametrize(("study", "case"), QUICK, ids=lambda one: getattr(one, "key", None))
def test_the_page_is_not_older_than_the_code(
    study: Study[Any], case: Case, committed: Records
) -> None:
    """The code computes the numbers that the committed page's records contain.

    If this test fails, run `make papers` and commit the new page.
    """
    kept = committed.of(study.name, case.key)
    assert set(kept) >= ORIGIN
    kept = {key: value for key, value in kept.items() if key not in ORIGIN}
    found = dict(leaves(study.measure(case)))
    assert found == {
        path: pytest.approx(value, rel=1e-6) if isinstance(value, float) else value
        for path, value in leaves(kept)
    }


def test_the_page_is_that_of_its_records(committed: Records) -> None:
    assert (DOCS / "papers.md").read_text(encoding="utf-8") == page(committed)
    for plot in plots(committed):
        drawn = (DOCS / "papers" / f"{plot.name}.svg").read_text(encoding="utf-8")
        assert all(name in drawn for name, _ in plot.groups)


def test_what_was_not_measured_says_so(committed: Records) -> None:
    text = (DOCS / "papers.md").read_text(encoding="utf-8")
    shown = [e for part in SECTIONS.values() for e in part if e.body is not None]
    missing = [exhibit for exhibit in shown if not is_measured(exhibit, committed)]
    assert text.count("\nNot measured so far: ") == len(missing)
    assert len(shown) - len(missing) >= 18
    for cases in committed.studies.values():
        assert all(ORIGIN < set(record) for record in cases.values())


def test_exhibits_have_numbers_or_a_reason() -> None:
    for title, exhibits in SECTIONS.items():
        names = [exhibit.name for exhibit in exhibits]
        assert len(set(names)) == len(names), title
        for exhibit in exhibits:
            assert exhibit.remark or exhibit.basis == "counted"
            assert (exhibit.body is None) == (exhibit.basis == "not repeated")
            assert bool(exhibit.studies) == (exhibit.body is not None)
    assert sum(e.body is not None for part in SECTIONS.values() for e in part) >= 30
    shown = {name for part in SECTIONS.values() for e in part for name in e.studies}
    assert shown == {study.name for study in STUDIES}


def test_cases_of_a_study_have_names_of_their_own() -> None:
    assert len({study.name for study in STUDIES}) == len(STUDIES)
    for study in STUDIES:
        for cases in (study.cases, study.quick):
            assert len({case.key for case in cases}) == len(cases)
        full = {case.key: case for case in study.cases}
        assert all(full.get(case.key, case) == case for case in study.quick)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = ["--output", str(tmp_path)]
    assert main(["--quick", "ios blocks counted", "--workers", "2", *folder]) == 0
    records = read_records(tmp_path / "papers.json")
    assert records.of("ios blocks counted", "SqueezeNet")["transitions"] == 51
    assert not (tmp_path / "papers.md").exists()
    capsys.readouterr()
    assert main(["--quick", "--missing", "ios blocks counted", *folder]) == 0
    assert capsys.readouterr().out == "", "nothing is left"
    assert main(["no study", *folder]) == 1
    assert main(["--workers", "0", *folder]) == 1
    assert main(["--render", *folder]) == 0
    assert "Not measured so far" in (tmp_path / "papers.md").read_text(encoding="utf-8")
    (tmp_path / "papers.json").write_text("[1]")
    assert main(["--render", *folder]) == 1
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 3
    assert "found 'no study'" in errors[0]
    assert "expected at least 1, found 0" in errors[1]
    assert "expected records of studies" in errors[2]


def test_a_case_that_fails_is_a_record() -> None:
    broken = gpu_runs.GpuRun("no_such_model")
    ((_, case, record),) = measure_all([(gpu_runs.STUDY, broken)], workers=1)
    assert case == broken
    assert "found 'no_such_model'" in record["error"]


def test_a_table_shows_a_case_that_failed() -> None:
    records, lost = Records(), "out of memory"
    for model in gpu_runs.BATCHED:
        for batch in (1, 4, 16):
            run = gpu_runs.GpuRun(model, batch=batch)
            failed = model == gpu_runs.BATCHED[0] and batch == 4
            study = gpu_runs.BATCH_STUDY if batch > 1 else gpu_runs.STUDY
            found: dict[str, Any] = {"base": {"ms": 2.0}, "select": {"ms": 1.0}}
            records.add(study.name, run.key, {"error": lost} if failed else found)
    rows = figure_12(records).splitlines()
    assert sum(lost in row for row in rows) == 1
    assert sum("2.000 | 1.000 | 2.00" in " ".join(row.split()) for row in rows) == 5


@pytest.mark.parametrize("seed", range(3))
def test_overhead_is_launches(seed: int) -> None:
    graph = gpu_module(seed)
    found = gpu_runs.compare(graph, V100)
    assert found["base"]["launches"] == len(graph.operators)
    assert 1 <= found["select"]["launches"] < found["base"]["launches"]
    for name in ("base", "base_select", "fast", "select"):
        run = found[name]
        queued = (run["launches"] - 1) * V100.queued_launch_seconds
        assert run["overhead_ms"] == pytest.approx(1e3 * (V100.launch_seconds + queued))
        assert 0 <= run["barriers_ms"] < run["ms"] - run["overhead_ms"]
        assert 0 < run["utilization"] <= 1
    free_launches = replace(V100, launch_seconds=0.0, queued_launch_seconds=1e-15)
    free = gpu_runs.compare(graph, free_launches)["base"]
    assert free["ms"] == pytest.approx(found["base"]["ms"] - found["base"]["overhead_ms"])


@pytest.mark.parametrize("seed", range(6))
def test_selection_never_loses_to_the_fastest_rkernels(seed: int) -> None:
    found = gpu_runs.compare(gpu_module(seed), V100)
    fast, base, select = (found[name]["ms"] for name in ("fast", "base", "base_select"))
    assert fast < base <= select * (1 + 1e-9)
    assert (found["changed"] == 0) == (select == pytest.approx(base))


def test_a_graph_with_an_rkernel_each() -> None:
    graph = gpu_module(1)
    chosen = [number % len(o.kernels) for number, o in enumerate(graph.operators)]
    single = gpu_runs.with_kernels(graph, chosen)
    assert [o.kernels for o in single.operators] == [
        (o.kernels[k],) for o, k in zip(graph.operators, chosen, strict=True)
    ]


def test_each_schedule_is_at_least_its_restriction(committed: Records) -> None:
    records = committed.studies[strategies.STUDY.name]
    assert len(records) >= 3
    for found in (record["ms"] for record in records.values()):
        assert found["merge"] <= found["sequential"]
        assert found["both"] <= found["parallel"] * 1.001
        assert min(found.values()) > 0


def test_stages_move_within_a_network() -> None:
    settings = [batches.setting("mlp", "v100", batch, "small") for batch in (1, 8)]
    (first, _), (_, last) = batches.cross(settings, batches.made_for(settings))
    assert first < last, "more rows take longer"
    other = batches.setting("attention", "v100", 1, "small")
    with pytest.raises(OptionError, match="settings: expected equal numbers of operators"):
        batches.made_for([settings[0], other])


def test_times_of_operators_differ_from_run_to_run() -> None:
    (case,) = kernel_times.STUDY.quick
    found = kernel_times.measure(case)
    assert len(found["mean"]) == len(found["deviation"]) > 5
    assert min(found["mean"]) > 0
    assert found["weighted"] > 0
