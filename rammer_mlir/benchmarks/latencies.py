"""Make tables of latencies, of latency ratios, and of the ratios' geometric means."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import geometric_mean

from rammer_mlir.benchmarks.bench import Missing, Result
from rammer_mlir.benchmarks.contenders.table import CONTENDERS, RIVALS
from rammer_mlir.benchmarks.machine import table

ACCEPTABLE = 0.9
"""Lower limit that every ratio should reach."""


@dataclass(frozen=True)
class Ratio:
    """A contender's median latency divided by this compiler's: above 1, this compiler is faster."""

    model: str
    threads: int
    policy: str
    contender: str
    value: float


def ratios(results: Iterable[Result]) -> list[Ratio]:
    """Return a ratio for each model, count of threads, policy of this compiler, and contender.

    A ratio is left out if one of its two latencies was not measured. The ratios are in the order
    of ``results``, then of the requests' threads and policies, then of the contenders.
    """
    return [
        Ratio(result.request.model, threads, policy, contender, theirs.median / ours.median)
        for result in results
        for threads in result.request.threads
        for policy in result.request.policies
        for contender in CONTENDERS
        if (ours := result.latency(policy, threads)) is not None
        and (theirs := result.latency(contender, threads)) is not None
    ]


def policies_of(results: Iterable[Result]) -> list[str]:
    """Return the policies that the requests of ``results`` name, without repetitions, in order."""
    return list(dict.fromkeys(policy for r in results for policy in r.request.policies))


def measured_contenders(results: Sequence[Result]) -> list[str]:
    """Return the names of contenders that ran at least one model."""
    names = {timing.name for result in results for timing in result.timings}
    return [name for name in CONTENDERS if name in names]


def latency_table(results: Sequence[Result]) -> str:
    """Return a Markdown table of latencies with a row per model and count of threads.

    A row has the median and the quartiles in ms for each contender and for each policy of this
    compiler. The last cell is the largest error of this compiler's outputs, divided by the
    tolerance.
    """
    others, policies = measured_contenders(results), policies_of(results)
    rows = [["model", "threads", *(f"{name} ms" for name in (*others, *policies)), "error"]]
    for result in results:
        for threads in result.request.threads:
            found = [result.latency(name, threads) for name in (*others, *policies)]
            cells = ["-" if latency is None else str(latency) for latency in found]
            errors = [
                t.worst for t in result.timings if t.threads == threads and t.name in policies
            ]
            error = f"{max(errors):.2g}" if errors else "-"
            rows.append([result.request.model, str(threads), *cells, error])
    return table(rows)


def ratio_table(results: Sequence[Result], threads: Iterable[int] = ()) -> str:
    """Return a Markdown table of median latencies and ratios, per model and count of threads.

    Latencies are in ms. A ratio is a contender's latency divided by this compiler's; above 1, this
    compiler is faster. Only the counts in ``threads`` are shown, or all if ``threads`` is empty.
    """
    found = {(r.model, r.threads, r.policy, r.contender): r.value for r in ratios(results)}
    others = [name for name in RIVALS if name in measured_contenders(results)]
    policies, wanted = policies_of(results), set(threads)
    heading = [f"{name} ms" for name in (*others, *policies)]
    pairs = [(policy, contender) for policy in policies for contender in others]
    rows = [["model", "threads", *heading, *(f"{c} / {p}" for p, c in pairs)]]
    for result in results:
        for number in result.request.threads:
            if wanted and number not in wanted:
                continue
            name = result.request.model
            latencies = [result.latency(one, number) for one in (*others, *policies)]
            times = ["-" if one is None else f"{1e3 * one.median:.3f}" for one in latencies]
            values = [found.get((name, number, *pair)) for pair in pairs]
            cells = ["-" if value is None else f"{value:.2f}" for value in values]
            rows.append([name, str(number), *times, *cells])
    return table(rows)


def summary_table(results: Sequence[Result]) -> str:
    """Return a Markdown table that compares this compiler with other contenders over all models.

    A ratio is a contender's median latency divided by this compiler's; above 1, this compiler is
    faster. There is a row for each combination of thread count, contender and policy, with these
    cells:

    - the number of models,
    - the geometric mean of the models' ratios,
    - the smallest ratio, followed by its model's name,
    - the number of models with a ratio below ``ACCEPTABLE``.
    """
    groups: defaultdict[tuple[int, str, str], list[Ratio]] = defaultdict(list)
    for ratio in ratios(results):
        groups[ratio.threads, ratio.policy, ratio.contender].append(ratio)
    rows = [["threads", "ratio", "models", "geometric mean", "smallest", f"below {ACCEPTABLE}"]]
    for (threads, policy, contender), found in sorted(groups.items(), key=lambda item: item[0][0]):
        least = min(found, key=lambda ratio: ratio.value)
        mean = geometric_mean([ratio.value for ratio in found])
        below = sum(ratio.value < ACCEPTABLE for ratio in found)
        rows.append([
            str(threads), f"{contender} / {policy}", str(len(found)), f"{mean:.2f}",
            f"{least.value:.2f} ({least.model})", str(below),
        ])  # fmt: skip
    return table(rows)


def missing_lines(results: Iterable[Result]) -> list[str]:
    """Return a line for each distinct reason why a contender has no latency.

    A line names the measurements (model and thread count) that have this reason, or only their
    count if there are five or more.
    """
    found: defaultdict[str, list[str]] = defaultdict(list)
    for result in results:
        for missing in result.missing:
            found[missing.reason].append(_where(result, missing))
    return [
        f"{reason} ({', '.join(places) if len(places) < 5 else f'{len(places)} measurements'})"
        for reason, places in found.items()
    ]


def _where(result: Result, missing: Missing) -> str:
    return f"{result.request.model}, {missing.threads} threads"
