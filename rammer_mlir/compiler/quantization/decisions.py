"""Records which regions are quantized, with their signal-to-noise ratios."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class RegionDecision:
    """The decision about a call of a region.

    Attributes:
        title: the names of the region's function and of the model's node that calls it.
        bits: bits of its contractions; 32 if it stays f32.
        decibels: signal-to-noise ratio of the quantization, on the calibration data; None if not
            measured.
        reason: why the region stays f32; empty if it is quantized.
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
    """The decisions about all regions, in the order of their calls."""

    regions: tuple[RegionDecision, ...]

    def stats(self) -> list[dict[str, object]]:
        """Return the decisions in a form for JSON."""
        return [asdict(each) for each in self.regions]

    @property
    def summary(self) -> str:
        """The decisions as lines of the program's summary."""
        kept = sum(not each.reason for each in self.regions)
        head = f"quantized        {kept} of {len(self.regions)} regions"
        return "\n".join([head, *(f"  {each.line}" for each in self.regions)])
