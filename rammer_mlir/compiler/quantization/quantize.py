"""Quantizes a program's regions: calibrates ranges, adds quantized variants, measures the noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, isnan
from typing import Any

from numpy.typing import NDArray

from rammer_mlir.bindings import ir
from rammer_mlir.compiler.quantization.calibration import calibration
from rammer_mlir.compiler.quantization.decisions import QuantizationReport, RegionDecision
from rammer_mlir.compiler.quantization.observation import Observer
from rammer_mlir.compiler.weights import packed_weights
from rammer_mlir.errors import OptionError
from rammer_mlir.options import Options
from rammer_mlir.passes.ir.entry import entry_function
from rammer_mlir.passes.quantization.candidates import Candidate, add_candidates, erase_uncalled
from rammer_mlir.passes.quantization.ranges import EXTREMES_ONLY, check_method
from rammer_mlir.passes.quantization.region_calls import RegionCall, region_calls
from rammer_mlir.passes.quantization.rewrite import FactorRanges, Precision, may_overflow
from rammer_mlir.passes.quantization.taps import RegionTaps
from rammer_mlir.passes.regions.codegen import CODEGENS, ask
from rammer_mlir.support.log import LOGGER

Array = NDArray[Any]

_UNMEASURED = "its results for the samples are all zero, or not finite"
"""Why a region without a signal-to-noise ratio stays f32."""


@dataclass(frozen=True)
class Quantization:
    """Settings of quantization.

    Attributes:
        codegens: names of the code generators whose regions are quantized.
        precision: 8 or 16 bits, with scales from calibration or from the data of each run.
        method: how to choose the range of a tensor: ``minmax``, ``percentile`` or ``entropy``.
        bound: minimal signal-to-noise ratio of a quantized region, in decibels.
    """

    codegens: tuple[str, ...]
    precision: Precision
    method: str = EXTREMES_ONLY
    bound: float = 25.0

    def check(self) -> None:
        """Check the settings.

        Raises:
            OptionError: if ``precision`` has other than 8 or 16 bits or is dynamic with 16 bits,
                ``bound`` is not finite, or ``method`` is unknown.
        """
        bits = self.precision.bits
        if bits not in (8, 16):
            raise OptionError(f"quantize: expected 8 or 16 bits, found {bits}")
        if self.precision.is_dynamic and bits != 8:
            raise OptionError(
                "quantize: expected 8 bits with ranges from the data of each run, found 16, which "
                "have no ranges; leave one of them out"
            )
        if not isfinite(self.bound):
            raise OptionError(f"quantize: expected a bound in decibels, found {self.bound:g}")
        check_method(self.method)

    def apply(self, module: ir.Module, observer: Observer) -> QuantizationReport:
        """Quantize the regions that keep a signal-to-noise ratio of at least ``bound``.

        Return the decisions about all regions.

        Args:
            module: the program after the outlining of regions; modified.
            observer: runs copies of the program.
        """
        calls = region_calls(module, self.codegens)
        if not calls:
            return QuantizationReport(())
        arrays = packed_weights(entry_function(module), observer.constants)
        with calibration(module, self.codegens, arrays, observer) as program:
            ranges = program.factor_ranges(self.method)
            pairs = zip(program.regions, ranges, strict=True)
            reasons = [_obstacle(taps, each, self.precision) for taps, each in pairs]
            candidates = self._candidates(module, calls, ranges, reasons, arrays)
            chosen = [(c, t) for c, t in zip(candidates, program.regions, strict=True) if c]
            measured = iter(program.signal_to_noise(module, chosen))
        regions = [
            RegionDecision(call.title, 32, None, reason)
            if candidate is None
            else self._decided(candidate, next(measured))
            for call, candidate, reason in zip(calls, candidates, reasons, strict=True)
        ]
        erase_uncalled(module)
        for region in regions:
            LOGGER.info("%s", region.line)
        return QuantizationReport(tuple(regions))

    def _candidates(
        self,
        module: ir.Module,
        calls: Sequence[RegionCall],
        ranges: Sequence[Sequence[FactorRanges]],
        reasons: list[str],
        arrays: Mapping[int, Array],
    ) -> list[Candidate | None]:
        """Add a quantized variant to ``module`` for each call that ``reasons`` does not exclude.

        Args:
            module: the module, modified.
            calls: the calls of regions.
            ranges: for each call, the ranges of the factors of its contractions.
            reasons: for each call, why it stays f32; empty for a call to quantize. If the code
                generator refuses a variant, the reason is stored here.
            arrays: the weights by the entry function's argument indices.

        Returns:
            The variant for each call; None for a call that stays f32.
        """
        free = [number for number, reason in enumerate(reasons) if not reason]
        wanted = [(calls[number], ranges[number]) for number in free]
        found: list[Candidate | None] = [None] * len(calls)
        made = add_candidates(module, wanted, self.precision, arrays)
        for number, candidate in zip(free, made, strict=True):
            reasons[number] = _unsupported(candidate)
            if reasons[number]:
                candidate.refuse()
            else:
                found[number] = candidate
        return found

    def _decided(self, candidate: Candidate, decibels: float | None) -> RegionDecision:
        """Decide whether a quantized variant replaces its region; apply and return the decision.

        The variant is used if its signal-to-noise ratio ``decibels`` is at least ``bound``. It is
        not used if there is no ratio (None).
        """
        title = candidate.call.title
        if decibels is None:
            candidate.refuse()
            return RegionDecision(title, 32, None, _UNMEASURED)
        if decibels >= self.bound:
            candidate.accept()
            return RegionDecision(title, self.precision.bits, decibels)
        candidate.refuse()
        return RegionDecision(title, 32, decibels, f"expected at least {self.bound:g} dB")


def quantization_of(options: Options, codegens: tuple[str, ...]) -> Quantization:
    """Return the quantization settings in the user's options, for regions of ``codegens``."""
    precision = Precision(options["quantize"], options["quantize_dynamic"])
    return Quantization(codegens, precision, options["quantize_method"], options["quantize_bound"])


def _obstacle(taps: RegionTaps, ranges: Sequence[FactorRanges], precision: Precision) -> str:
    """Return the reason why a region cannot be quantized; "" if the region can be quantized.

    A region cannot be quantized if it has no contractions, if a factor is not finite, or if 8-bit
    sums may exceed i32. A factor that is zero in all samples shows no range, which scales of 8 bits
    need unless they are computed from the data.

    Args:
        taps: the taps of the region, with the lengths of its sums.
        ranges: the ranges of the factors of the region's contractions.
        precision: the precision of the quantized contractions.
    """
    if not ranges:
        return "it has no product or convolution of f32"
    known = [found for pair in ranges for found in pair if found is not None]
    if any(isnan(found.low) for found in known):
        return "it reads NaN or infinite numbers"
    is_fixed = precision.bits == 8 and not precision.is_dynamic
    if is_fixed and any(found.low == found.high for found in known):
        return "it multiplies numbers that are zero in all samples"
    for terms, pair in zip(taps.terms, ranges, strict=True):
        if precision.bits == 8 and may_overflow(terms, pair):
            return f"sums of {terms} products may exceed 32 bits"
    return ""


def _unsupported(candidate: Candidate) -> str:
    """Return why the code generator refuses a quantized region; "" if it supports the region."""
    codegen = CODEGENS.get(candidate.call.codegen)
    for reading in candidate.changed_readings():
        if isinstance(reading, str):
            return f"'{codegen.name}' takes no '{reading}' of other elements"
        if not ask(codegen, "supports", lambda r=reading: codegen.supports(r)):
            kinds = "".join(
                f" {kind}" for kind in dict.fromkeys(o.element_type for o in reading.inputs)
            )
            return f"'{codegen.name}' takes no {reading.kind} of{kinds}"
    return ""
