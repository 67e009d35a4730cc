"""Calibration: the ranges of what contractions read, and the noise of quantized regions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite, log10, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.bindings import ir
from rammer_mlir.compiler.quantization.observation import Observations, Observer
from rammer_mlir.passes.ir.cloning import copy_module
from rammer_mlir.passes.ir.constants import CONSTANT, argument_attributes
from rammer_mlir.passes.ir.entry import entry_block, entry_function
from rammer_mlir.passes.quantization.candidates import Candidate
from rammer_mlir.passes.quantization.ranges import EXTREMES_ONLY, Histogram, Range, range_of
from rammer_mlir.passes.quantization.region_calls import return_more
from rammer_mlir.passes.quantization.rewrite import FactorRanges
from rammer_mlir.passes.quantization.taps import Tap, tap_regions

Array = NDArray[Any]

NOT_FINITE = Range(nan, nan)
"""The range of a tensor that holds NaN or infinite numbers."""


@dataclass(frozen=True)
class _Observed:
    """Histograms of tapped tensors, filled by runs of the program."""

    histograms: Mapping[Tap, Histogram]
    names: Mapping[int, str]

    def visit(self, observations: Observations, record: Callable[[Histogram, Array], None]) -> None:
        """Run all samples; show each tapped tensor to its histogram."""
        for feeds, outputs in zip(observations.feeds, observations, strict=True):
            for tap, histogram in self.histograms.items():
                is_input, number = tap.is_input, tap.number
                record(histogram, feeds[self.names[number]] if is_input else outputs[number])

    @property
    def is_finite(self) -> bool:
        """Whether all values are finite."""
        return all(isfinite(h.low) and isfinite(h.high) for h in self.histograms.values())


def factor_ranges(
    module: ir.Module,
    codegens: Collection[str],
    arrays: Mapping[int, Array],
    observer: Observer,
    method: str,
) -> list[list[FactorRanges]]:
    """Return, for each region's contractions, the ranges of its factors on calibration data.

    Args:
        module: behind the outlining of regions; stays as it is.
        codegens: whose regions.
        arrays: the weights by the entry function's argument numbers.
        observer: runs a copy.
        method: how a range is chosen.
    """
    copy = copy_module(module)
    taps = tap_regions(copy, codegens, arrays)
    used = [tap for region in taps for pair in region for tap in pair if tap is not None]
    observed = _Observed({tap: Histogram() for tap in used}, _input_names(module, observer))
    with observer.observe(copy, len({tap for tap in used if not tap.is_input})) as observations:
        observed.visit(observations, Histogram.widen)
        if method != EXTREMES_ONLY and observed.is_finite:
            observed.visit(observations, Histogram.count)
    found = {tap: _range(each, method) for tap, each in observed.histograms.items()}
    return [
        [tuple(None if tap is None else found[tap] for tap in pair) for pair in region]
        for region in taps
    ]


def _range(histogram: Histogram, method: str) -> Range:
    if not isfinite(histogram.low) or not isfinite(histogram.high):
        return NOT_FINITE
    return range_of(histogram, method if histogram.counts.any() else EXTREMES_ONLY)


def _input_names(module: ir.Module, observer: Observer) -> dict[int, str]:
    """Return the names of the model's inputs by the entry function's argument numbers."""
    attributes = argument_attributes(entry_function(module))
    numbers = (number for number, given in enumerate(attributes) if CONSTANT not in given)
    return {n: spec.name for n, spec in zip(numbers, observer.inputs, strict=True)}


def signal_to_noise(
    module: ir.Module, candidates: Sequence[Candidate], observer: Observer
) -> list[float]:
    """Return the decibels of quantized regions beside those of f32, on the same inputs.

    The ratio is that of the sums of squares of the results of f32, and of the differences, over
    all results and samples.
    """
    if not candidates:
        return []
    copy = copy_module(module)
    count = _return_both(module, copy, candidates)
    energies = np.zeros((len(candidates), 2))
    with observer.observe(copy, count) as observations:
        for outputs in observations:
            rest = iter(outputs)
            for number, each in enumerate(candidates):
                exact, found = ([next(rest) for _ in each.made.results] for _ in range(2))
                energies[number] += _energies(exact, found)
    return [_decibels(float(signal), float(noise)) for signal, noise in energies]


def _return_both(module: ir.Module, copy: ir.Module, candidates: Sequence[Candidate]) -> int:
    """Let a module's copy return the results of f32 and quantized; return their number."""
    places = {op.operation: place for place, op in enumerate(entry_block(module).operations)}
    copied = list(entry_block(copy).operations)
    calls = (call for each in candidates for call in (each.call.op, each.made))
    values = [value for call in calls for value in copied[places[call]].operation.results]
    return_more(entry_function(copy), values)
    return len(values)


def _energies(exact: Sequence[Array], found: Sequence[Array]) -> NDArray[np.float64]:
    """Return the sums of squares of results and of differences."""
    total = np.zeros(2)
    for wanted, given in zip(exact, found, strict=True):
        reference = wanted.astype(np.float64)
        total += np.square(reference).sum(), np.square(reference - given).sum()
    return total


def _decibels(signal: float, noise: float) -> float:
    if noise == 0:
        return inf
    return 10 * log10(signal / noise) if signal > 0 else -inf
