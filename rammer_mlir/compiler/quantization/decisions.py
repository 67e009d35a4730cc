"""Records which regions are quantized, with their signal-to-noise ratios."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class RegionDecision:
    """The decision whether a call of a region is quantized.

    Attributes:
        title: the names of the region's function and of the model's node that calls it.
        bits: bits of the elements that the region's contractions read; 32 if the region stays f32.
        decibels: signal-to-noise ratio of the quantized region on the calibration data; None if not
            measured.
        reason: why the region stays f32; empty if the region is quantized.
    """

    title: str
    bits: int
    decibels: float | None
    reason: str = ""

    @property
    def line(self) -> str:
        """The decision as a line of text."""
        measured = "" if self.decibels is None else f"{self.decibels:.1f} dB, "
        kept = f"stays f32, {self.reason}" if self.reason else f"{self.bits} bits"
        return f"{self.title}: {measured}{kept}"


@dataclass(frozen=True)
class QuantizationReport:
    """The decisions about all calls of regions, in the order of the calls."""

    regions: tuple[RegionDecision, ...]

    def stats(self) -> list[dict[str, object]]:
        """Return the decisions as objects for JSON."""
        return [asdict(each) for each in self.regions]

    @property
    def summary(self) -> str:
        """The section of the program's summary that lists the decisions, as lines of text."""
        kept = sum(not each.reason for each in self.regions)
        head = f"quantized        {kept} of {len(self.regions)} regions"
        return "\n".join([head, *(f"  {each.line}" for each in self.regions)])
