"""What choosing regions by the plan's simulated time has come to."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class OffloadDecision:
    """Regions of foreign code generators, and what the simulator says of them.

    Attributes:
        found: regions with code, where everything is offloaded in the order of priority.
        kept: regions in the program.
        host_seconds: predicted time of the program without regions.
        all_seconds: of the one with all regions that were found.
        chosen_seconds: of the program.
        simulations: how many programs were simulated.
        untried: programs that were not, because time or the number of simulations was at its end.
        measured: how many programs were compiled and timed; the fastest is the program.
        host_measured: seconds of a run of the program without regions, None if it was not timed.
        all_measured: of the one with all regions.
        chosen_measured: of the program.
    """

    found: int
    kept: int
    host_seconds: float
    all_seconds: float
    chosen_seconds: float
    simulations: int
    untried: int = 0
    measured: int = 0
    host_measured: float | None = None
    all_measured: float | None = None
    chosen_measured: float | None = None

    def stats(self) -> dict[str, float | None]:
        """Return all of it by name, for JSON."""
        return asdict(self)

    @property
    def summary(self) -> str:
        """Return it in words, as a line of a program's summary."""
        predicted = _times(self.chosen_seconds, self.host_seconds, self.all_seconds, "predicted")
        untried = f", {self.untried} not tried" if self.untried else ""
        words = f"{self.kept} of {self.found} regions: {predicted} ({self.simulations} simulations"
        found = f"offloaded        {words}{untried})"
        if not self.measured:
            return found
        measured = _times(self.chosen_measured, self.host_measured, self.all_measured, "measured")
        return f"{found}; {measured} ({self.measured} programs)"


def _times(chosen: float | None, host: float | None, everything: float | None, how: str) -> str:
    """Say how long the program takes, and those without and with all regions."""
    texts = [
        "not" if each is None else f"{each * 1e3:.3f} ms" for each in (chosen, host, everything)
    ]
    return f"{texts[0]} {how}, without regions {texts[1]}, with all {texts[2]}"
