"""Make tables of the measurements of training steps with fusion, beside the papers' numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from rammer_mlir.benchmarks.fusion.figure_21 import Figure21
from rammer_mlir.benchmarks.fusion.measure import Fused, FusionResult
from rammer_mlir.benchmarks.fusion.paper import PUBLISHED, RAMMER_OVER_BASE, Published
from rammer_mlir.benchmarks.fusion.settings import (
    COST,
    DEFAULT,
    NO_FUSION,
    PAPERS,
    RECOMPUTED,
    f_max,
)
from rammer_mlir.benchmarks.machine import table

MB = 1e6
NONE = "-"

Ratio = Callable[[Published], float | None]


def text(results: Sequence[FusionResult], figures: Sequence[Figure21] = ()) -> str:
    """Return a Markdown report of the measurements: tables, and a list of failures.

    Tables without measurements are left out.
    """
    parts: list[str] = []
    if any(result.ways for result in results):
        parts += [SUMMARY, summary_table(results), EVERYTHING, fusion_table(results)]
    if any(result.optimization for result in results):
        parts += [OPTIMIZATION, optimization_table(results)]
    if figures:
        parts += [FIGURE_21, figure_table(figures)]
    failed = [f"- {r.request.model}: {r.error}" for r in results if r.error]
    failed += [f"- figure 21, {f.request.size}: {f.error}" for f in figures if f.error]
    return "\n\n".join([*parts, *(["Failed", "\n".join(failed)] if failed else [])])


SUMMARY = (
    f"What fusion and temporaries gain, ours with the paper's {PAPERS} (Dali, table 1): above 1, "
    f"`{PAPERS}` is better. `best F` is the fastest limit of inputs, `default` and `cost` are the "
    "compiler's other boundaries, over it: above 1, they are slower"
)


def summary_table(results: Iterable[FusionResult]) -> str:
    """Return a Markdown table with a row per model that shows how much fusion improves a step.

    Three columns are ratios to the step with the fusion of Dali's paper. The paper's own ratio
    follows each of these:
    - the time without fusion;
    - the arena size without fusion;
    - the time with fusion but without temporaries.

    The other columns are:
    - the limit F of the number of an rOperator's inputs that gives the shortest time;
    - the time with the compiler's default boundary, divided by this shortest time;
    - the time with `boundary=cost`, divided by this shortest time.
    """
    rows = [["model", "no fusion, time", "paper", "no fusion, arena", "paper", "no temporaries",
             "paper", "best F", "default over it", "cost over it"]]  # fmt: skip
    for result in (result for result in results if result.ways):
        paper = PUBLISHED.get(result.request.model)
        limits = [way for f in range(1, 9) if (way := result.way(f_max(f))) is not None]
        best = min(limits, key=lambda way: way.seconds, default=None)
        rows.append([
            result.request.model,
            *_beside(result, NO_FUSION, _seconds, paper, lambda p: p.separate / p.fused),
            *_beside(result, NO_FUSION, _arena, paper, lambda p: p.separate_mb / p.fused_mb),
            *_beside(result, RECOMPUTED, _seconds, paper,
                     lambda p: None if p.recomputed is None else p.recomputed / p.fused),
            NONE if best is None else best.setting,
            _ratio(result.way(DEFAULT), best), _ratio(result.way(COST), best),
        ])  # fmt: skip
    return table(rows)


def _seconds(way: Fused) -> float:
    return way.seconds


def _arena(way: Fused) -> float:
    return way.arena_bytes


def _beside(
    result: FusionResult,
    setting: str,
    value: Callable[[Fused], float],
    paper: Published | None,
    published: Ratio,
) -> list[str]:
    theirs = None if paper is None else published(paper)
    ours = _ratio(result.way(setting), result.way(PAPERS), value)
    return [ours, NONE if theirs is None else f"{theirs:.2f}"]


def _ratio(
    above: Fused | None, below: Fused | None, value: Callable[[Fused], float] = _seconds
) -> str:
    if above is None or below is None or not value(below):
        return NONE
    return f"{value(above) / value(below):.2f}"


EVERYTHING = (
    "Every way to fuse. Step: median of the faster half on one core, in turns, by the thread's "
    "processor time; arena: memory of intermediate tensors; tensors: all of them one beside the "
    "other; compile: processor time; error: worst against ONNX Runtime, as a share of the "
    "tolerance. `F = N`: rOperators read no more than N different tensors (Dali's F_max)"
)


def fusion_table(results: Iterable[FusionResult]) -> str:
    """Return a table of times and memory of a step, with a row per model and fusion setting."""
    rows = [["model", "fusion", "step ms", "rOperators", "arena MB", "tensors MB", "compile s",
             "error"]]  # fmt: skip
    for result in (result for result in results if result.ways):
        name = result.request.model
        for way in result.ways:
            rows.append([
                name, way.setting, f"{1e3 * way.seconds:.3f}", str(way.operators),
                f"{way.arena_bytes / MB:.2f}", f"{way.intermediate_bytes / MB:.2f}",
                f"{way.compile_seconds:.1f}", f"{way.worst:.2g}",
            ])  # fmt: skip
        reference = f"{1e3 * result.reference_seconds:.3f}"
        rows.append([name, "ONNX Runtime", reference, f"{result.nodes} nodes", *[NONE] * 4])
    return table(rows)


OPTIMIZATION = (
    "What optimization takes (Dali, table 2), milliseconds by the clock. First: the whole "
    "compilation, of which graph is the part before code generation. For an equal model with other "
    "names: hash, until the cache finds the program, shape inference and constant folding "
    "included; cached, from there until it can run; saving: first over the sum of both. Same: the "
    "same model, found by its bytes. The paper's first optimization generates no machine code"
)


def optimization_table(results: Iterable[FusionResult]) -> str:
    """Return a Markdown table of compile times in milliseconds, with a row per model.

    A row with the Dali paper's times follows if the paper has the model.
    """
    rows = [["model", "whose", "first", "graph", "cached", "hash", "step", "saving", "same"]]
    for result in results:
        found, way = result.optimization, result.way(DEFAULT)
        if found is None or way is None:
            continue
        times = (found.first, found.graph, found.cached, found.hashed, way.seconds)
        rows.append([
            result.request.model, "ours", *(f"{1e3 * t:.3g}" for t in times),
            f"{found.saving:.0f}", f"{1e3 * found.same:.3g}",
        ])  # fmt: skip
        if (paper := PUBLISHED.get(result.request.model)) is not None:
            theirs = (paper.first, paper.first, paper.cached, paper.hashed, paper.computed)
            cells = [f"{1e3 * t:.3g}" for t in theirs]
            rows.append([paper.title, "Dali", *cells, f"{paper.saving:.0f}", NONE])
    return table(rows)


FIGURE_21 = (
    "Training LSTM-TC with batch 256 (RAMMER, figure 21), milliseconds of a step. Predicted on the "
    "simulated V100: base launches operator after operator, sequential runs them in one program; "
    "measured: on this machine's CPU"
)


def figure_table(figures: Iterable[Figure21]) -> str:
    """Return a table of RAMMER's figure 21 with a row per size of the model."""
    rows = [["size", "rOperators", "base", "sequential", "wavefront", "base over wavefront",
             "paper", "CPU sequential", "CPU wavefront", "ratio"]]  # fmt: skip
    for figure in (figure for figure in figures if figure.error is None):
        predicted = (figure.base, figure.sequential, figure.wavefront)
        measured = [figure.measured.get(policy) for policy in ("sequential", "wavefront")]
        slow, fast = measured
        rows.append([
            figure.request.size, str(figure.operators), *(f"{1e3 * t:.3f}" for t in predicted),
            f"{figure.base / figure.wavefront:.2f}", f"{RAMMER_OVER_BASE:.2f}",
            *(NONE if t is None else f"{1e3 * t:.3f}" for t in measured),
            NONE if slow is None or fast is None else f"{slow / fast:.2f}",
        ])  # fmt: skip
    return table(rows)
