"""Regions formed for code generators: outlined, quantized if that is wanted, and made code of."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial

from rammer_mlir.bindings import ir
from rammer_mlir.compiler.quantization.decisions import QuantizationReport
from rammer_mlir.compiler.quantization.observation import Observer
from rammer_mlir.compiler.quantization.quantize import Quantization
from rammer_mlir.compiler.stage import Step, Work
from rammer_mlir.lowering.registry import LOWERING_PASSES
from rammer_mlir.passes.manager import run_pipeline
from rammer_mlir.passes.registry import PASSES

FormRegions = Callable[[Work, ir.Module], QuantizationReport | None]
"""Forms the regions of a module for a model; returns what was quantized, where that is wanted."""


def form_regions(
    outlined: Sequence[str], generated: Sequence[str], quantization: Quantization | None
) -> FormRegions:
    """Return what forms regions by passes.

    Args:
        outlined: passes up to the outlining of regions.
        generated: passes that ask for the regions' code.
        quantization: how regions are quantized in between.
    """
    return partial(_form, outlined, generated, quantization)


def _form(
    outlined: Sequence[str],
    generated: Sequence[str],
    quantization: Quantization | None,
    work: Work,
    module: ir.Module,
) -> QuantizationReport | None:
    if quantization is None:
        _run(module, (*outlined, *generated))
        return None
    _run(module, outlined)
    report = quantization.apply(module, _observer(work))
    _run(module, generated)
    return report


def _run(module: ir.Module, passes: Sequence[str]) -> None:
    text = f"builtin.module({','.join(passes)})"
    run_pipeline(module, text, passes=(*PASSES, *LOWERING_PASSES))


def _observer(work: Work) -> Observer:
    samples, inputs = work.options.samples, work.signature.inputs
    assert samples is not None
    num_veus = min(work.options.num_veus, len(os.sched_getaffinity(0)))
    return Observer(inputs, samples.feeds(inputs), work.constants, num_veus)


def all_regions(form: FormRegions) -> Step:
    """Return the step that forms all regions and keeps them."""

    def keep(work: Work) -> None:
        work.quantized = form(work, work.module)

    return keep
