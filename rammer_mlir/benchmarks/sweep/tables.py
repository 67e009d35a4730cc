"""Make the sweep's tables of latency ratios: quantiles by family, and the worst cases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import geometric_mean, median

from rammer_mlir.benchmarks.machine import table
from rammer_mlir.benchmarks.roofline import Roofline
from rammer_mlir.benchmarks.sweep.measure import OURS, CaseResult, ratios

WORST = 25
"""Number of cases listed, worst first."""

RATIOS = (
    "Random cases: the least latency of the other contenders over ours, median over the rounds; "
    "above 1, we are faster. "
    "Floor: the case's arithmetic at the processor's best rate, or its inputs, weights and results "
    "at the bandwidth of a working set of their size, or an empty launch; floor reached: the "
    "highest of them over our median"
)


def floor(result: CaseResult, roofline: Roofline) -> float:
    """Return a lower bound of the seconds of a case, from the processor's peak rates.

    The bound is the largest of three times: to compute all operations, to move all data once, and
    to launch a program.
    """
    case = result.case
    memory = case.num_bytes / roofline.bandwidth(case.num_bytes)
    return max(case.flops / roofline.flops_per_second, memory, roofline.launch_seconds)


def text(results: Sequence[CaseResult], rooflines: Iterable[Roofline]) -> list[str]:
    """Return the sweep's section of a report, as a list of paragraphs.

    The paragraphs have the table of latency ratios by family, the table of the worst cases, the
    list of the cases with wrong results, and the list of the contenders without a latency.
    ``rooflines`` has the processor's peak rates, for lower bounds of the times.
    """
    limits = {roofline.threads: roofline for roofline in rooflines}
    parts = [RATIOS, summary_table(results, limits), "The worst cases", worst_table(results)]
    wrong = [f"- {_name(r)}: error {r.worst:.2g} of the tolerance" for r in results if r.worst > 1]
    missing = [f"- {_name(r)}: {reason}" for r in results for reason in r.missing]
    for title, lines in (("Wrong", wrong), ("Without a latency", missing)):
        if lines:
            parts += [title, "\n".join(lines)]
    return parts


def _name(result: CaseResult) -> str:
    return f"{result.case.seed} ({result.case.title}), {result.threads} threads"


def summary_table(results: Sequence[CaseResult], limits: dict[int, Roofline]) -> str:
    """Return a Markdown table of latency ratios, with a row per family and number of threads.

    A row has the mean and quantiles of ``CaseResult.ratio``. Its last column has the median, over
    the cases, of a lower bound of the time divided by this compiler's time. The first rows are for
    all families together. ``limits`` has the peak rates for the lower bound, keyed by the number of
    threads.
    """
    heading = ["family", "threads", "cases", "mean", "1 %", "10 %", "median", "90 %", "below 0.7",
               "worst", "floor reached"]  # fmt: skip
    rows = [heading]
    families = sorted({result.case.family for result in results})
    for family in (None, *families):
        for threads in sorted({result.threads for result in results}):
            chosen = [
                r for r in results if r.threads == threads and family in (None, r.case.family)
            ]
            if found := ratios(chosen):
                rows.append([family or "all", str(threads), *_row(found, chosen, limits)])
    return table(rows)


def _row(
    found: Sequence[float], chosen: Sequence[CaseResult], limits: dict[int, Roofline]
) -> list[str]:
    reached = [
        floor(result, limits[result.threads]) / result.latencies[OURS].median
        for result in chosen
        if result.threads in limits and OURS in result.latencies
    ]
    quantiles = [f"{_quantile(found, share):.2f}" for share in (0.01, 0.1, 0.5, 0.9)]
    return [
        str(len(found)), f"{geometric_mean(found):.2f}", *quantiles,
        f"{sum(ratio < 0.7 for ratio in found) / len(found):.1%}", f"{found[0]:.2f}",
        f"{median(reached):.0%}" if reached else "-",
    ]  # fmt: skip


def _quantile(ascending: Sequence[float], share: float) -> float:
    return ascending[min(len(ascending) - 1, int(share * len(ascending)))]


def worst_table(results: Iterable[CaseResult]) -> str:
    """Return a Markdown table of the ``WORST`` cases with the smallest latency ratios, worst first.

    A ratio is ``CaseResult.ratio``. A row also has the median latencies of all contenders in
    microseconds.
    """
    measured = [(ratio, r) for r in results if (ratio := r.ratio) is not None]
    measured.sort(key=lambda pair: pair[0])
    names = list(dict.fromkeys(name for _, r in measured for name in r.latencies))
    rows = [["seed", "threads", "ratio", *(f"{name} us" for name in names), "case"]]
    for ratio, result in measured[:WORST]:
        times = [
            f"{1e6 * found.median:.0f}" if (found := result.latencies.get(name)) else "-"
            for name in names
        ]
        rows.append([
            str(result.case.seed), str(result.threads), f"{ratio:.2f}", *times, result.case.title,
        ])  # fmt: skip
    return table(rows)
