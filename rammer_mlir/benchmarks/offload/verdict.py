"""Check that offloading by cost is not slower than offloading nothing or offloading everything."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from rammer_mlir.benchmarks.machine import table
from rammer_mlir.benchmarks.offload.measure import (
    ALWAYS,
    COST,
    HOST,
    Measured,
    OffloadResult,
    Outcome,
)

ACCEPTABLE = 1.03
"""Largest acceptable ratio of latencies: of offloading by cost, to the faster of none and all."""

MIXED = 0.95
"""Largest such ratio at which offloading by cost counts as faster than none and all."""

_LONGEST = 300
"""Largest number of characters of a reason that are printed."""

CHOICES = (HOST, ALWAYS, COST)


@dataclass(frozen=True)
class Verdict:
    """The latency of offloading by cost, divided by that of the faster alternative.

    The alternatives are offloading nothing and offloading everything. A ratio below 1 means that
    offloading by cost is faster than both.

    Attributes:
        ratio: the quotient of the latencies.
        equal_to: ``HOST`` or ``ALWAYS`` if offloading by cost gives the same program as this
            alternative, whose latency is then used for both; else empty.
    """

    ratio: float
    equal_to: str = ""

    @property
    def is_acceptable(self) -> bool:
        """Whether offloading by cost is about as fast as the faster alternative, or faster.

        This is the case if the ratio is at most ``ACCEPTABLE``, a number slightly above 1.
        """
        return self.ratio <= ACCEPTABLE

    @property
    def is_better(self) -> bool:
        """Whether offloading by cost is clearly faster than both alternatives.

        This is the case if the ratio is at most ``MIXED``, a number below 1.
        """
        return self.ratio <= MIXED

    def __str__(self) -> str:
        """Return the ratio and whether it is acceptable, such as "0.980 yes", "1.000 yes, host"."""
        words = "better than both" if self.is_better else "yes" if self.is_acceptable else "no"
        return f"{self.ratio:.3f} {words}{', ' if self.equal_to else ''}{self.equal_to}"


def verdict(outcome: Outcome) -> Verdict | None:
    """Return the verdict on offloading by cost for a code generator and a model.

    The result is None if one of three latencies is missing: with nothing offloaded, with everything
    offloaded, or with offloading by cost.
    """
    host, always, cost = (outcome.seconds(name) for name in CHOICES)
    if host is None or always is None or cost is None:
        return None
    same = _equal_alternative(outcome)
    if same and _digest(outcome, HOST) == _digest(outcome, ALWAYS) is not None:
        return Verdict(1.0, same)  # nothing can be offloaded: both latencies are of one program
    seconds = {HOST: host, ALWAYS: always, "": cost}[same]
    return Verdict(seconds / min(host, always), same)


def _digest(outcome: Outcome, name: str) -> str | None:
    run = outcome.run(name)
    return None if run is None else run.digest


def _equal_alternative(outcome: Outcome) -> str:
    """Return ``HOST`` or ``ALWAYS`` if offloading by cost gives the same program, else ""."""
    run, always = outcome.run(COST), outcome.run(ALWAYS)
    if run is not None and run.kept == 0:
        return HOST
    is_all = run is not None and always is not None and run.digest == always.digest is not None
    return ALWAYS if is_all else ""


def error_text(run: Measured | None) -> str:
    """Return the error of a run's results as text, or "-" if nothing was measured.

    For detectors, the text has the share of detections that agree with the reference's. For other
    models, it has the largest error divided by the tolerance for f32 or, if that is above 1, the
    largest error as a percentage of the largest element.
    """
    if run is None:
        return "-"
    if run.agreement is not None:
        return f"{100 * run.agreement:.0f} % of detections agree"
    if run.worst > 1:
        return f"{100 * run.scaled_error:.2g} % of the largest element"
    return f"{run.worst:.2g} of the tolerance"


def verdict_table(results: list[OffloadResult]) -> str:
    """Return a Markdown table with a row per model and code generator.

    A row has the latencies in ms with nothing offloaded, with everything offloaded, and with
    offloading by cost; the verdict on offloading by cost; and the error with everything offloaded.
    The verdict compares the latencies within each round of turns, so that it may differ from the
    quotient of the medians.
    """
    heading = ["model", "threads", "code generator", *(f"{name} ms" for name in CHOICES)]
    rows = [[*heading, f"cost over the better, at most {ACCEPTABLE}", "error of all offloaded"]]
    for result in results:
        for outcome in result.outcomes:
            runs = [outcome.run(name) for name in CHOICES]
            cells = ["-" if run is None else str(run.latency) for run in runs]
            found = verdict(outcome)
            last = "-" if found is None else str(found)
            where = [result.request.model, str(result.request.threads)]
            codegen, error = result.request.title(outcome.codegen), error_text(outcome.run(ALWAYS))
            rows.append([*where, codegen, *cells, last, error])
    return table(rows)


def summary(results: list[OffloadResult]) -> str:
    """Return a sentence with the number of results in which offloading by cost is acceptable."""
    found = [v for r in results for o in r.outcomes if (v := verdict(o)) is not None]
    good = sum(v.is_acceptable for v in found)
    better = sum(v.is_better for v in found)
    return (
        f"`cost` is at most {ACCEPTABLE} of the better of host and all offloaded in {good} of "
        f"{len(found)} cases, and better than both by 5 % in {better}."
    )


def failures(results: list[OffloadResult]) -> list[str]:
    """Return a line for each missing result, with the reason."""
    lines = [f"- {r.request.model}: {_short(r.error)}" for r in results if r.error]
    lines += [
        f"- {result.request.model}, {outcome.codegen}: {', '.join(steps)}: {_short(reason)}"
        for result in results
        for outcome in result.outcomes
        for reason, steps in _by_reason(outcome).items()
    ]
    return lines


def _by_reason(outcome: Outcome) -> dict[str, list[str]]:
    """Group the failed measurements of a code generator by their reason.

    The keys are reasons, the values the names of the measurements.
    """
    found: defaultdict[str, list[str]] = defaultdict(list)
    for step, _, reason in (text.partition(": ") for text in outcome.reasons):
        found[reason].append(step)
    return found


def _short(reason: str) -> str:
    return reason if len(reason) <= _LONGEST else f"{reason[:_LONGEST]}..."
