"""Which regions are quantized, and how well they compute."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class RegionDecision:
    """What became of one call of a region.

    Attributes:
        title: the region's function, and the node that it stands for.
        bits: of its contractions; 32 if it stays f32.
        decibels: ratio of the signal to the noise of quantization, on the calibration data; None if
            it was not measured.
        reason: why it stays f32; empty where it does not.
    """

    title: str
    bits: int
    decibels: float | None
    reason: str = ""

    @property
    def line(self) -> str:
        """Return it in words."""
        measured = "" if self.decibels is None else f"{self.decibels:.1f} dB, "
        kept = f"stays f32, {self.reason}" if self.reason else f"{self.bits} bits"
        return f"{self.title}: {measured}{kept}"


@dataclass(frozen=True)
class QuantizationReport:
    """What became of all regions, in the order of their calls."""

    regions: tuple[RegionDecision, ...]

    def stats(self) -> list[dict[str, object]]:
        """Return it for JSON."""
        return [asdict(each) for each in self.regions]

    @property
    def summary(self) -> str:
        """Return it in words, as lines of a program's summary."""
        kept = sum(not each.reason for each in self.regions)
        head = f"quantized        {kept} of {len(self.regions)} regions"
        return "\n".join([head, *(f"  {each.line}" for each in self.regions)])
