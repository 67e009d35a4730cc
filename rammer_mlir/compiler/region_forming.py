"""Forming of regions for code generators: outlining, optional quantization, code generation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rammer_mlir.bindings import ir
from rammer_mlir.compiler.quantization.decisions import QuantizationReport
from rammer_mlir.compiler.quantization.observation import Observer
from rammer_mlir.compiler.quantization.quantize import Quantization
from rammer_mlir.compiler.stage import Step, Work
from rammer_mlir.errors import OffloadWarning
from rammer_mlir.lowering.registry import LOWERING_PASSES
from rammer_mlir.passes.ir.entry import CODEGEN, functions
from rammer_mlir.passes.manager import run_pipeline
from rammer_mlir.passes.registry import PASSES
from rammer_mlir.support.usable_cores import usable_cores
from rammer_mlir.support.user_warnings import warn_user


@dataclass(frozen=True)
class FormRegions:
    """Forms the regions of a module.

    Attributes:
        outlined: passes up to the outlining of regions.
        generated: passes that request the regions' code, and return regions without code to the
            host.
        quantization: settings for quantizing outlined regions; None to leave them in f32.
    """

    outlined: tuple[str, ...]
    generated: tuple[str, ...]
    quantization: Quantization | None = None

    def __call__(self, work: Work, module: ir.Module) -> QuantizationReport | None:
        """Form the regions of a module, and return the decisions about quantization.

        Return None if regions are not quantized.
        """
        if self.quantization is None:
            _run(module, (*self.outlined, *self.generated))
            return None
        _run(module, self.outlined)
        report = self.quantization.apply(module, _observer(work))
        _run(module, self.generated)
        return report


def _run(module: ir.Module, passes: Sequence[str]) -> None:
    text = f"builtin.module({','.join(passes)})"
    run_pipeline(module, text, passes=(*PASSES, *LOWERING_PASSES))


def _observer(work: Work) -> Observer:
    samples, inputs = work.options.samples, work.signature.inputs
    assert samples is not None
    num_veus = min(work.options.num_veus, usable_cores())
    return Observer(inputs, samples.feeds(inputs), work.constants, num_veus)


def quantized_regions(form: FormRegions) -> Step:
    """Return a step that calls ``form``, and stores its decisions in ``Work.quantized``."""

    def keep(work: Work) -> None:
        work.quantized = form(work, work.module)

    return keep


def warn_if_nothing_is_taken(names: Sequence[str]) -> Step:
    """Return the step that warns if the code generators ``names`` accepted no region."""

    def warn(work: Work) -> None:
        if not any(CODEGEN in f.operation.attributes for f in functions(work.module)):
            wanted = " or ".join(f"'{name}'" for name in names)
            warn_user(
                f"offload: expected operations that {wanted} can compute, found none; the host "
                "computes everything",
                OffloadWarning,
            )

    return warn
