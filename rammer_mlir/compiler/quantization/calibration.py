"""Finds the ranges of contraction operands, and measures the noise of quantized regions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf, isfinite, log10, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.bindings import ir
from rammer_mlir.compiler.quantization.observation import Observations, Observer, spec_of
from rammer_mlir.passes.ir.cloning import copy_module
from rammer_mlir.passes.ir.constants import CONSTANT, argument_attributes
from rammer_mlir.passes.ir.entry import entry_block, entry_function
from rammer_mlir.passes.quantization.candidates import Candidate
from rammer_mlir.passes.quantization.isolation import isolate_candidates
from rammer_mlir.passes.quantization.ranges import EXTREMES_ONLY, Histogram, Range, range_of
from rammer_mlir.passes.quantization.rewrite import FactorRanges
from rammer_mlir.passes.quantization.taps import RegionTaps, Tap, tap_regions

Array = NDArray[Any]

NOT_FINITE = Range(nan, nan)
"""The range of a tensor that has NaN or infinite elements."""


@dataclass(frozen=True)
class Calibration:
    """A compiled f32 program that also outputs the values of its regions, and all samples to run.

    Attributes:
        observer: contains the samples, and compiles programs.
        program: the compiled program, with f32 regions and with values of regions as additional
            outputs.
        regions: the taps of each call of a region, in the order of the calls. A tap is an input or
            output of ``program`` at which a value of the region is observed.
        names: the model's input names by the entry function's argument indices.
    """

    observer: Observer
    program: Observations
    regions: Sequence[RegionTaps]
    names: Mapping[int, str]

    def values(self) -> Iterator[ObservedValues]:
        """Run ``program`` on each sample, in order; yield the values observed for the sample."""
        for feeds in self.observer.feeds:
            yield ObservedValues(feeds, self.program.run(feeds), self.names)

    def factor_ranges(self, method: str) -> list[list[FactorRanges]]:
        """Return the ranges of the factors of all contractions.

        The result has a list for each call of a region, and the list a pair for each contraction
        in the region: the ranges of the two factors. The range is None for a weight.

        Args:
            method: how to choose a range from the observed values: ``minmax``, ``percentile`` or
                ``entropy``.
        """
        used = [tap for each in self.regions for pair in each.factors for tap in pair if tap]
        histograms = {tap: Histogram() for tap in used}
        self._visit(histograms, Histogram.widen)
        is_finite = all(isfinite(h.low) and isfinite(h.high) for h in histograms.values())
        if method != EXTREMES_ONLY and is_finite:
            self._visit(histograms, Histogram.count)
        found = {tap: _range(each, method) for tap, each in histograms.items()}
        return [
            [tuple(None if tap is None else found[tap] for tap in pair) for pair in each.factors]
            for each in self.regions
        ]

    def _visit(
        self, histograms: Mapping[Tap, Histogram], record: Callable[[Histogram, Array], None]
    ) -> None:
        """Call ``record`` with each tap's histogram and with the tap's value, for each sample."""
        for values in self.values():
            for tap, histogram in histograms.items():
                record(histogram, values.of(tap))

    def signal_to_noise(
        self, module: ir.Module, chosen: Sequence[tuple[Candidate, RegionTaps]]
    ) -> list[float | None]:
        """Return the signal-to-noise ratio in dB of each variant in ``chosen``, in order.

        The ratio is None for a variant whose signal is zero or not finite.

        ``chosen`` has pairs: a quantized variant in ``module``, and the taps of its f32 region in
        ``program``. The signal is the sum of squares of the f32 results, the noise the sum of
        squares of the errors of the quantized results, over all results and samples. The quantized
        results come from another compiled program, which computes only the quantized variants.
        """
        if not chosen:
            return []
        copy = copy_module(module)
        inputs = isolate_candidates(module, copy, chosen)
        added = [*entry_block(copy).arguments][len(entry_block(copy).arguments) - len(inputs) :]
        more = [spec_of(f"value {n}", value) for n, value in enumerate(added)]
        energies = np.zeros((len(chosen), 2))
        with self.observer.observe(copy, more) as quantized:
            for values in self.values():
                given = {spec.name: values.of(t) for spec, t in zip(more, inputs, strict=True)}
                found = iter(quantized.run({**values.feeds, **given}))
                for number, (_, taps) in enumerate(chosen):
                    exact = [values.of(tap) for tap in taps.results]
                    energies[number] += _energies(exact, [next(found) for _ in exact])
        return [_decibels(float(signal), float(noise)) for signal, noise in energies]


@dataclass(frozen=True)
class ObservedValues:
    """The values observed for one sample.

    Attributes:
        feeds: the model's inputs by name.
        outputs: the outputs of the observed program, by output index.
        names: the model's input names by the entry function's argument indices.
    """

    feeds: Mapping[str, Array]
    outputs: Sequence[Array]
    names: Mapping[int, str]

    def of(self, tap: Tap) -> Array:
        """Return the value at a tap, which is an input or an output of the observed program."""
        return self.feeds[self.names[tap.number]] if tap.is_input else self.outputs[tap.number]


@contextmanager
def calibration(
    module: ir.Module, codegens: Collection[str], arrays: Mapping[int, Array], observer: Observer
) -> Generator[Calibration]:
    """Compile a copy of ``module`` that outputs the values of its regions; yield a ``Calibration``.

    Args:
        module: the program after the outlining of regions; not modified.
        codegens: names of the code generators whose regions are observed.
        arrays: the weights by the entry function's argument indices.
        observer: runs the copy.
    """
    copy = copy_module(module)
    regions = tap_regions(copy, codegens, arrays)
    with observer.observe(copy) as program:
        yield Calibration(observer, program, regions, _input_names(module, observer))


def _range(histogram: Histogram, method: str) -> Range:
    if not isfinite(histogram.low) or not isfinite(histogram.high):
        return NOT_FINITE
    return range_of(histogram, method if histogram.counts.any() else EXTREMES_ONLY)


def _input_names(module: ir.Module, observer: Observer) -> dict[int, str]:
    """Return the names of the model's inputs by the entry function's argument indices."""
    attributes = argument_attributes(entry_function(module))
    numbers = (number for number, given in enumerate(attributes) if CONSTANT not in given)
    return {n: spec.name for n, spec in zip(numbers, observer.inputs, strict=True)}


def _energies(exact: Sequence[Array], found: Sequence[Array]) -> NDArray[np.float64]:
    """Return two sums of squares over all arrays: of ``exact``, and of ``exact - found``."""
    total = np.zeros(2)
    with np.errstate(invalid="ignore"):  # infinite results give NaN, which _decibels expects
        for wanted, given in zip(exact, found, strict=True):
            reference = wanted.astype(np.float64)
            total += np.square(reference).sum(), np.square(reference - given).sum()
    return total


def _decibels(signal: float, noise: float) -> float | None:
    if signal == 0 or not isfinite(signal):
        return None
    if noise == 0:
        return inf
    return 10 * (log10(signal) - log10(noise)) if isfinite(noise) else -inf
