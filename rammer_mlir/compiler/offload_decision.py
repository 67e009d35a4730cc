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
    """

    found: int
    kept: int
    host_seconds: float
    all_seconds: float
    chosen_seconds: float
    simulations: int
    untried: int = 0

    def stats(self) -> dict[str, float]:
        """Return all of it by name, for JSON."""
        return asdict(self)

    @property
    def summary(self) -> str:
        """Return it in words, as a line of a program's summary."""
        chosen, host, everything = (
            f"{seconds * 1e3:.3f} ms"
            for seconds in (self.chosen_seconds, self.host_seconds, self.all_seconds)
        )
        untried = f", {self.untried} not tried" if self.untried else ""
        return (
            f"offloaded        {self.kept} of {self.found} regions: {chosen} predicted, without "
            f"regions {host}, with all {everything} ({self.simulations} simulations{untried})"
        )
