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
"""Largest ratio, as for ``ACCEPTABLE``, at which offloading by cost counts as faster than both."""

_LONGEST = 300
"""Largest number of characters of a reason that are printed."""

CHOICES = (HOST, ALWAYS, COST)


@dataclass(frozen=True)
class Verdict:
    """The verdict on offloading by cost, for a code generator and a model.

    There are two alternatives: offloading nothing and offloading everything.

    Attributes:
        ratio: the latency of offloading by cost, divided by the latency of the faster alternative.
            Below 1, offloading by cost is faster than both alternatives.
        equal_to: ``HOST`` (offloading nothing) or ``ALWAYS`` (offloading everything) if offloading
            by cost gives the same program as this alternative; then the alternative's latency is
            used for offloading by cost too. Else empty.
    """

    ratio: float
    equal_to: str = ""

    @property
    def is_acceptable(self) -> bool:
        """Whether offloading by cost is at most slightly slower than the faster alternative.

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
        """Return the verdict as text, such as "0.980 yes".

        The text has the ratio; "better than both", "yes" (acceptable) or "no"; and the name of the
        alternative with the same program if there is one, as in "1.000 yes, host".
        """
        words = "better than both" if self.is_better else "yes" if self.is_acceptable else "no"
        return f"{self.ratio:.3f} {words}{', ' if self.equal_to else ''}{self.equal_to}"


def verdict(outcome: Outcome) -> Verdict | None:
    """Return the verdict on offloading by cost for a code generator and a model.

    The result is None if one of three latencies is missing: that of offloading nothing, of
    offloading everything, or of offloading by cost.
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
    """Return the alternative that gives the same program as offloading by cost.

    The result is ``HOST`` (offloading nothing), ``ALWAYS`` (offloading everything), or "" if the
    program differs from both.
    """
    run, always = outcome.run(COST), outcome.run(ALWAYS)
    if run is not None and run.kept == 0:
        return HOST
    is_all = run is not None and always is not None and run.digest == always.digest is not None
    return ALWAYS if is_all else ""


def error_text(run: Measured | None) -> str:
    """Return the error of a contender's outputs as text, or "-" if it was not measured.

    The reference is the outputs of ONNX Runtime. The text states one of these numbers:

    - for a detector, the percentage of the reference's detections that were found
    - else the largest error divided by the tolerance for f32, if that is at most 1
    - else the largest error as a percentage of the output's largest element
    """
    if run is None:
        return "-"
    if run.agreement is not None:
        return f"{100 * run.agreement:.0f} % of detections agree"
    if run.worst > 1:
        return f"{100 * run.scaled_error:.2g} % of the largest element"
    return f"{run.worst:.2g} of the tolerance"


def verdict_table(results: list[OffloadResult]) -> str:
    """Return a Markdown table of latencies and verdicts, with a row per model and code generator.

    A row has:

    - the model, the number of threads, and the code generator
    - the latencies in ms of offloading nothing, everything, and by cost
    - the verdict on offloading by cost
    - the error of the outputs when everything is offloaded

    The contenders run in turn, in rounds. The verdict compares latencies within each round, so its
    ratio may differ from the quotient of the medians in the table.
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
    """Return a sentence that counts the cases in which offloading by cost is acceptable.

    It also counts the cases in which offloading by cost is better than both alternatives.
    """
    found = [v for r in results for o in r.outcomes if (v := verdict(o)) is not None]
    good = sum(v.is_acceptable for v in found)
    better = sum(v.is_better for v in found)
    return (
        f"`cost` is at most {ACCEPTABLE} of the better of host and all offloaded in {good} of "
        f"{len(found)} cases, and better than both by 5 % in {better}."
    )


def failures(results: list[OffloadResult]) -> list[str]:
    """Return a line for each reason of failed measurements of a model and code generator.

    The line has the model, the code generator, the failed measurements, and the reason. If all
    measurements of a model failed, the line has only the model and the reason.
    """
    lines = [f"- {r.request.model}: {_short(r.error)}" for r in results if r.error]
    lines += [
        f"- {result.request.model}, {outcome.codegen}: {', '.join(steps)}: {_short(reason)}"
        for result in results
        for outcome in result.outcomes
        for reason, steps in _by_reason(outcome).items()
    ]
    return lines


def _by_reason(outcome: Outcome) -> dict[str, list[str]]:
    """Group the failed measurements of a code generator by the reason of the failure.

    The result maps each reason to the names of the measurements that failed for this reason.
    """
    found: defaultdict[str, list[str]] = defaultdict(list)
    for step, _, reason in (text.partition(": ") for text in outcome.reasons):
        found[reason].append(step)
    return found


def _short(reason: str) -> str:
    return reason if len(reason) <= _LONGEST else f"{reason[:_LONGEST]}..."
