"""Records the regions chosen for foreign code generators, with predicted and measured times."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class OffloadDecision:
    """The selected regions of foreign code generators, with predicted and measured times.

    Attributes:
        found: number of regions if every possible region is kept, in the user's order of code
            generators.
        kept: number of regions in the chosen program.
        host_seconds: predicted seconds per run of the program without regions.
        all_seconds: predicted seconds per run of the program with all regions.
        chosen_seconds: predicted seconds per run of the chosen program.
        simulations: number of programs simulated.
        untried: number of programs not simulated, because the limit of the search's time or of its
            number of simulations was reached.
        measured: number of programs compiled and timed. The fastest program is chosen, but the
            program without regions, or else the program with all regions, is preferred if it takes
            at most 2 % longer.
        unmeasured: number of programs not compiled for lack of time.
        host_measured: seconds per run of the program without regions; None if not timed.
        all_measured: seconds per run of the program with all regions; None if not timed.
        chosen_measured: seconds per run of the chosen program; None if not timed.
    """

    found: int
    kept: int
    host_seconds: float
    all_seconds: float
    chosen_seconds: float
    simulations: int
    untried: int = 0
    measured: int = 0
    unmeasured: int = 0
    host_measured: float | None = None
    all_measured: float | None = None
    chosen_measured: float | None = None

    def stats(self) -> dict[str, float | None]:
        """Return all fields by name, for JSON; a time in seconds is None if it is unknown."""
        return asdict(self)

    @property
    def summary(self) -> str:
        """The decision as a line of the program's summary."""
        predicted = _times(self.chosen_seconds, self.host_seconds, self.all_seconds, "predicted")
        untried = f", {self.untried} not tried" if self.untried else ""
        words = f"{self.kept} of {self.found} regions: {predicted} ({self.simulations} simulations"
        found = f"offloaded        {words}{untried})"
        if not self.measured:
            return found
        measured = _times(self.chosen_measured, self.host_measured, self.all_measured, "measured")
        unmeasured = f", {self.unmeasured} not tried" if self.unmeasured else ""
        return f"{found}; {measured} ({self.measured} programs{unmeasured})"


def _times(chosen: float | None, host: float | None, everything: float | None, how: str) -> str:
    """Return a text with the times of the chosen program, without regions, and with all regions.

    Args:
        chosen: seconds of the chosen program; None if not timed.
        host: seconds without regions; None if not timed.
        everything: seconds with all regions; None if not timed.
        how: participle after the chosen time, such as "measured".
    """
    texts = [
        "not" if each is None else f"{each * 1e3:.3f} ms" for each in (chosen, host, everything)
    ]
    return f"{texts[0]} {how}, without regions {texts[1]}, with all {texts[2]}"
