"""Formats the explanation of a run's time as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rammer_mlir.explanation.limits import Limits
from rammer_mlir.explanation.losses import Loss

SHOWN = 8
"""Maximum number of rOperators that the text of an explanation names."""

LEAST_LOSS = 1e-3
"""Minimum loss that is shown, as a share of the run's time on all vEUs.

In predicted runs, rTasks hardly exceed their lower bounds, and most losses are smaller.
"""

EXPLAINED_POLICIES = ("sequential", "wavefront", "ios", "list")
"""The policies whose plans are simulated and compared.

`optimal` is not among them, because it may take minutes.
"""


@dataclass(frozen=True)
class Explanation:
    """The times, bounds and losses that explain how long a run takes.

    Attributes:
        title: text that names the policy, the device and the number of vEUs.
        limits: the lower bounds and times of the run.
        losses: the time of each rOperator above its lower bound, the largest first.
        policy: name of the policy that scheduled the run.
        predicted: simulated seconds of a run, by policy name, including ``policy``.
    """

    title: str
    limits: Limits
    losses: Sequence[Loss]
    policy: str
    predicted: Mapping[str, float]

    @property
    def better(self) -> tuple[str, float] | None:
        """The policy with the shortest predicted run, and the share of the time that it saves.

        The share is relative to the predicted time of the run's own policy: 0.1 for 10 % less time.
        The result is None if no policy saves more than 0.1 %.
        """
        own = self.predicted[self.policy]
        name = min(self.predicted, key=self.predicted.__getitem__)
        gain = 1 - self.predicted[name] / own if own else 0.0
        return (name, gain) if gain > 1e-3 else None

    def text(self) -> str:
        """Return the explanation as text of several lines."""
        return "\n".join([
            f"{self.title}: {_ms(self.limits.total)}",
            f"limit            {self.limits.verdict}",
            *self._bounds(),
            *self._schedules(),
            *self._losses(),
        ])  # fmt: skip

    def _bounds(self) -> list[str]:
        limits, path = self.limits, self.limits.on_path
        return [
            f"critical path    {_ms(path['rtask'])} in rTasks, {_ms(path['barrier'])} in barriers, "
            f"{_ms(path['launch'])} in launches",
            f"bounds           work {_ms(limits.work)} on {limits.num_veus} vEUs, longest chain "
            f"{_ms(limits.chain)}, longest rTask {_ms(limits.longest)} ('{limits.longest_name}')",
            f"floors           arithmetic {_ms(limits.arithmetic)}, memory {_ms(limits.memory)} if "
            "caches held nothing",
        ]

    def _schedules(self) -> list[str]:
        others = sorted(self.predicted.items(), key=lambda item: item[1])
        listed = ", ".join(f"{name} {_ms(seconds)}" for name, seconds in others)
        if self.better is None:
            return [f"schedules        no policy is predicted to be faster: {listed}"]
        name, gain = self.better
        return [f"schedules        {name} is predicted to save {gain:.1%}: {listed}"]

    def _losses(self) -> list[str]:
        least = LEAST_LOSS * self.limits.total * self.limits.num_veus
        shown = [loss for loss in self.losses[:SHOWN] if loss.lost > least]
        if not shown:
            return [f"rOperators       none loses {LEAST_LOSS:.1%} of the time against its floor"]
        width = max(len(loss.name) for loss in shown)
        unit, scale = ("milliseconds", 1e3) if self.limits.total >= 1e-3 else ("microseconds", 1e6)
        lines = [f"rOperators that lose most against their floors, {unit} summed over vEUs:"]
        lines.append(f"  {'':<{width}}    rTasks      time     floor      lost")
        for loss in shown:
            times = "".join(f"{scale * s:10.3f}" for s in (loss.seconds, loss.floor, loss.lost))
            lines.append(f"  {loss.name:<{width}}{loss.rtasks:10}{times}  {loss.limit}")
        return lines


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3f} ms"
