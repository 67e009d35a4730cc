"""Make tables of the simulated GPU times of RammerBase and Rammer, beside the published times.

RammerBase launches the operators one after the other; Rammer executes one rProgram.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import mean

from rammer_mlir.benchmarks.machine import table
from rammer_mlir.benchmarks.models import ALL_MODELS
from rammer_mlir.benchmarks.papers.exhibit import Plot, ms, percent, ratio
from rammer_mlir.benchmarks.papers.rammer import gpu_runs, published
from rammer_mlir.benchmarks.papers.rammer.fit import FITTED
from rammer_mlir.benchmarks.papers.rammer.gpu_runs import (
    BATCHED,
    IMAGENET,
    TABLE_1,
    GpuRun,
)
from rammer_mlir.benchmarks.papers.study import Record, Records

RUNS = gpu_runs.STUDY.name
BATCHES = gpu_runs.BATCH_STUDY.name
FOR_IMAGENET = gpu_runs.IMAGENET_STUDY.name
MI50 = gpu_runs.MI50_STUDY.name
_MISSING = "-"

_BATCHED_RUNS = [GpuRun(model, batch=batch) for model in BATCHED for batch in (1, 4, 16)]
"""The cases of RAMMER's figures 12 and 17."""


def _run(records: Records, model: str, device: str = gpu_runs.DEVICE, batch: int = 1) -> Record:
    return _found(records, GpuRun(model, device, batch))


def _found(records: Records, run: GpuRun) -> Record:
    study = RUNS
    if run.model in IMAGENET:
        study = FOR_IMAGENET
    elif run.batch > 1 or run.device == "mi50":
        study = BATCHES if run.batch > 1 else MI50
    return records.of(study, run.key)


def _rows(
    records: Records, runs: Iterable[GpuRun], cells: Callable[[Record], Sequence[str]]
) -> list[list[str]]:
    """Return a table row for each run: the model and batch size, then the cells of its record.

    ``cells`` returns the cells of a record. A failed run has its error in place of the cells.
    """
    found: list[list[str]] = []
    for run in runs:
        record = _found(records, run)
        title = run.model if run.batch == 1 else f"{run.model}, batch {run.batch}"
        found.append([title, *([record["error"]] if "error" in record else cells(record))])
    width = max(map(len, found))
    return [row + [_MISSING] * (width - len(row)) for row in found]


def table_1(records: Records) -> str:
    """Return RAMMER's table 1 in Markdown: numbers of rOperators, rTasks and GFLOPs by model."""

    def cells(run: Record) -> list[str]:
        return [str(run["operators"]), str(run["rtasks"]), f"{run['gflops']:.2f}"]

    rows = _rows(records, [GpuRun(model) for model in (*TABLE_1, *IMAGENET)], cells)
    described = [[row[0], ALL_MODELS[row[0]].description, *row[1:]] for row in rows]
    return table([["model", "form", "rOperators", "rTasks", "GFLOPs"], *described])


def figure_1(records: Records) -> str:
    """Return RAMMER's figure 1 as a Markdown table: RammerBase's GPU utilization.

    The utilization is the fraction of the vEUs' time in kernels that is spent in rTasks.
    """
    rows = [["model", "batch 1", "batch 16"]]
    for model in TABLE_1:
        found = [_run(records, model, batch=n)["base"]["utilization"] for n in (1, 16)]
        rows.append([model, *map(percent, found)])
    at_16 = mean(_run(records, model, batch=16)["base"]["utilization"] for model in TABLE_1)
    rows.append(["mean", _MISSING, percent(at_16)])
    rows.append(["paper (TensorFlow)", "2% for Seq2Seq, the least", "40% on average"])
    return table(rows)


def figure_2(records: Records) -> str:
    """Return RAMMER's figure 2 as a Markdown table: RammerBase's total time and kernel time."""
    rows = [["model", "batch", "kernels ms", "end to end ms", "outside of kernels"]]
    shares: dict[int, list[float]] = {1: [], 16: []}
    for batch, found in shares.items():
        for model in TABLE_1:
            base = _run(records, model, batch=batch)["base"]
            found.append(base["overhead_ms"] / base["ms"])
            kernels = base["ms"] - base["overhead_ms"]
            rows.append([model, str(batch), ms(kernels), ms(base["ms"]), percent(found[-1])])
    rows += [["mean", str(n), "", "", percent(mean(found))] for n, found in shares.items()]
    rows.append(["paper (TensorFlow), mean", "1", "", "", "55%"])
    rows.append(["paper (TensorFlow)", "16", "", "", "16% to 55%"])
    return table(rows)


def figure_11(records: Records) -> str:
    """Return RAMMER's figure 11 as Markdown tables: times of RammerBase and Rammer on a V100."""
    rows = [["model", "base ms", "Rammer ms", "ratio", "paper: base ms", "Rammer ms", "ratio",
             "TensorFlow", "XLA", "TensorRT", "TVM"]]  # fmt: skip
    ours: list[float] = []
    theirs: list[float] = []
    for model in TABLE_1:
        run, paper = _run(records, model), published.FIGURE_11[model]
        ours.append(run["base"]["ms"] / run["select"]["ms"])
        theirs.append(paper["base"] / paper["Rammer"])
        rows.append([
            model, ms(run["base"]["ms"]), ms(run["select"]["ms"]), ratio(ours[-1]),
            ms(paper["base"]), ms(paper["Rammer"]), ratio(theirs[-1]),
            *(ms(paper[name]) for name in ("TensorFlow", "XLA", "TensorRT", "TVM")),
        ])  # fmt: skip
    rows.append(["mean", "", "", ratio(mean(ours)), "", "", ratio(mean(theirs)), *[""] * 4])
    return f"{table(rows)}\n\n{_errors(records)}\n\n{_forms(records, 'resnext29_16x64d')}"


def _errors(records: Records) -> str:
    """Return a Markdown table of the relative errors of predicted times, with a row per model.

    An error is the predicted time divided by the published time, minus 1. A row has four
    errors: of RammerBase's time in kernels, of RammerBase's total time, of Rammer's total time, and
    of RammerBase's total time without launches of operators that have no arithmetic ("fills"). The
    column "half" says whether the device description was fitted to the model ("fitted"), or only
    validated with the model ("checked").
    """
    rows = [["model", "half", "base: kernels", "base", "Rammer", "launches of fills",
             "base without them"]]  # fmt: skip
    for model in TABLE_1:
        run, paper = _run(records, model), published.FIGURE_11[model]
        base = run["base"]
        off = [
            f"{predicted / measured - 1:+.0%}"
            for predicted, measured in (
                (base["ms"] - base["overhead_ms"], published.BASE_KERNELS[model]),
                (base["ms"], paper["base"]),
                (run["select"]["ms"], paper["Rammer"]),
                (base["ms"] - run["fills"]["ms"], paper["base"]),
            )
        ]
        half = "fitted" if model in FITTED else "checked"
        rows.append([model, half, *off[:3], str(run["fills"]["launches"]), off[3]])
    return f"Predicted over published time:\n\n{table(rows)}"


def _forms(records: Records, model: str) -> str:
    """Return a Markdown table of a model's times with two operator graphs.

    One graph is this project's, the other is that of RAMMER's artifact.
    """
    rows = [["model", "for all: rOperators", "base ms", "Rammer ms", "ratio",
             "for each: rOperators", "base ms", "Rammer ms", "ratio", "paper's ratio"]]  # fmt: skip
    own = _found(records, GpuRun(model, form="own"))
    cells = [cell for run in (own, _run(records, model)) for cell in _sizes(run)]
    base, rammer = _published(GpuRun(model))
    rows.append([model, *cells, ratio(base / rammer)])
    intro = "One operator for all groups of a convolution, and one for each:"
    return f"{intro}\n\n{table(rows)}"


def _sizes(run: Record) -> list[str]:
    base, rammer = run["base"]["ms"], run["select"]["ms"]
    return [str(run["operators"]), ms(base), ms(rammer), ratio(base / rammer)]


def _published(run: GpuRun) -> tuple[float, float]:
    """Return the published milliseconds of RammerBase, and those of Rammer, for a case."""
    if run.batch > 1:
        return published.BATCHES[run.model, run.batch]
    if run.model in published.IMAGENET:
        return published.IMAGENET[run.model]
    return published.FIGURE_11[run.model]["base"], published.FIGURE_11[run.model]["Rammer"]


def plot_11(records: Records) -> Plot:
    """Return RAMMER's figure 11 as a bar chart: RammerBase's time divided by Rammer's."""
    groups: list[tuple[str, tuple[float | None, ...]]] = []
    for model in TABLE_1:
        run, paper = _run(records, model), published.FIGURE_11[model]
        theirs = paper["base"] / paper["Rammer"]
        groups.append((model, (run["base"]["ms"] / run["select"]["ms"], theirs)))
    series = ("ours, predicted", "paper, measured")
    return Plot("rammer-figure-11", "RammerBase over Rammer", series, tuple(groups))


def _beside_published(records: Records, runs: Sequence[GpuRun]) -> str:
    def cells(run: Record) -> list[str]:
        base, rammer = run["base"]["ms"], run["select"]["ms"]
        return [ms(base), ms(rammer), ratio(base / rammer)]

    rows = _rows(records, runs, cells)
    for row, run in zip(rows, runs, strict=True):
        base, rammer = _published(run)
        found = _found(records, run)
        row += [ms(base), ms(rammer), ratio(base / rammer)]
        if "error" in found:
            row += [_MISSING, _MISSING]
            continue
        pairs = (found["base"]["ms"] / base, found["select"]["ms"] / rammer)
        row += [f"{quotient - 1:+.0%}" for quotient in pairs]
    titles = ["base ms", "Rammer ms", "ratio"]
    head = ["model", *titles, f"paper: {titles[0]}", *titles[1:], "base: off", "Rammer: off"]
    return table([head, *rows])


def figure_12(records: Records) -> str:
    """Return RAMMER's figure 12 as a Markdown table: RammerBase and Rammer by batch size.

    The times are milliseconds.
    """
    return _beside_published(records, _BATCHED_RUNS)


def figure_13(records: Records) -> str:
    """Return RAMMER's figure 13 as Markdown tables: times of RammerBase and Rammer for ImageNet."""
    found = _beside_published(records, [GpuRun(model) for model in IMAGENET])
    return f"{found}\n\n{_forms(records, 'resnext101_64x4d')}"


def figure_14(records: Records) -> str:
    """Return RAMMER's figure 14 as a Markdown table: the utilization with RammerBase and Rammer.

    Here, the utilization is the fraction of the vEUs' time, including launches, that is spent in
    rTasks.
    """
    rows = [["model", "base", "Rammer", "ratio", "paper: base", "Rammer", "ratio"]]
    ratios: list[float] = []
    for model in TABLE_1:
        run = _run(records, model)
        base, rammer = (_of_all(run[name]) for name in ("base", "select"))
        ratios.append(rammer / base)
        papers = published.UTILIZATION[model]
        rows.append([
            model, percent(base), percent(rammer), ratio(ratios[-1]), *map(percent, papers),
            ratio(papers[1] / papers[0]),
        ])  # fmt: skip
    paper = "1.61, most 2.39"
    rows.append(["mean", "", "", f"{mean(ratios):.2f}, most {max(ratios):.2f}", "", "", paper])
    return table(rows)


def _of_all(run: Record) -> float:
    """Return the fraction of the vEUs' time, including launches, that is spent in rTasks.

    ``run`` has the fields of ``gpu_runs.Run``.
    """
    return run["utilization"] * (run["ms"] - run["overhead_ms"]) / run["ms"]


def figure_16(records: Records) -> str:
    """Return RAMMER's figure 16 as a Markdown table: time outside of kernels, and in barriers.

    A row has the milliseconds of one run of a model by RammerBase and by Rammer. Only Rammer has a
    time in barriers.
    """
    rows = [["model", "base: launches", "overhead ms", "share", "paper: ms", "Rammer: launches",
             "overhead ms", "share", "in barriers ms", "paper: ms"]]  # fmt: skip
    for model in TABLE_1:
        run, papers = _run(records, model), published.OVERHEAD[model]
        base, rammer = _overhead(run["base"]), _overhead(run["select"])
        barriers_ms = ms(run["select"]["barriers_ms"])
        rows.append([model, *base, ms(papers[0]), *rammer, barriers_ms, ms(papers[1])])
    sides: dict[str, list[str]] = {}
    for side in ("base", "select"):
        found = [_run(records, model)[side] for model in TABLE_1]
        shares = mean(one["overhead_ms"] / one["ms"] for one in found)
        sides[side] = ["", ms(mean(one["overhead_ms"] for one in found)), percent(shares)]
    waits = mean(_run(records, model)["select"]["barriers_ms"] for model in TABLE_1)
    rows.append(["mean", *sides["base"], "2.27", *sides["select"], ms(waits), "0.37"])
    return table(rows)


def _overhead(run: Record) -> list[str]:
    return [str(run["launches"]), ms(run["overhead_ms"]), percent(run["overhead_ms"] / run["ms"])]


def figure_17(records: Records) -> str:
    """Return RAMMER's figure 17 as Markdown tables: times with two sets of rKernels.

    The sets are the fastest rKernels of the operators, and the rKernels that Algorithm 1 selects.
    """
    head = ["model", "base, fast ms", "base, select ms", "Rammer, fast ms", "Rammer, select ms",
            "other rKernel"]  # fmt: skip

    def cells(run: Record) -> list[str]:
        times = (ms(run[name]["ms"]) for name in ("base", "base_select", "fast", "select"))
        return [*times, f"{run['changed']:.0%}"]

    rows = _rows(records, _BATCHED_RUNS, cells)
    found = (_found(records, run) for run in _BATCHED_RUNS)
    measured = [run for run in found if "error" not in run]
    ratios = [["ratio", "mean", "most", "paper, mean", "paper, most"]]
    for title, above, below, papers in (
        ("base, fast over Rammer, fast", "base", "fast", ("2.89", _MISSING)),
        ("Rammer, fast over Rammer, select", "fast", "select", ("1.44", "2.28")),
        ("base, select over base, fast", "base_select", "base", ("1.84", _MISSING)),
    ):
        values = [run[above]["ms"] / run[below]["ms"] for run in measured]
        ratios.append([title, ratio(mean(values)), ratio(max(values)), *papers])
    return f"{table([head, *rows])}\n\n{table(ratios)}"


def figure_19(records: Records) -> str:
    """Return RAMMER's figure 19 as a Markdown table: times of RammerBase and Rammer on an MI50."""

    def cells(run: Record) -> list[str]:
        base, base_k, rammer = (run[name]["ms"] for name in ("base", "base_select", "select"))
        return [ms(base), ms(base_k), ms(rammer), ratio(base / rammer)]

    rows = _rows(records, [GpuRun(model, "mi50") for model in TABLE_1], cells)
    found = [_run(records, model, "mi50") for model in TABLE_1]
    ratios = [run["base"]["ms"] / run["select"]["ms"] for run in found]
    rows.append(["mean", "", "", "", f"{mean(ratios):.2f}, most {max(ratios):.2f}"])
    rows.append(["paper", "", "", "", f"{published.MI50_MEAN}, most {published.MI50_MOST}"])
    return table([["model", "base ms", "base, Rammer's rKernels ms", "Rammer ms", "ratio"], *rows])
