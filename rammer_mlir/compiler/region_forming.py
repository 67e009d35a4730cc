"""Forms regions for code generators: outlines them, quantizes if requested, generates code."""

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
from rammer_mlir.passes.ir.cloning import copy_module
from rammer_mlir.passes.ir.entry import CODEGEN, functions
from rammer_mlir.passes.manager import run_pipeline
from rammer_mlir.passes.regions.region_graph import RegionGraph
from rammer_mlir.passes.registry import PASSES
from rammer_mlir.support.usable_cores import usable_cores
from rammer_mlir.support.user_warnings import warn_user


@dataclass(frozen=True)
class FormRegions:
    """Forms the regions of a module.

    Attributes:
        codegens: names of the code generators, in the order of priority.
        marked: passes that mark each operation that a code generator supports.
        partitioned: passes that merge marked operations into regions, then split large regions and
            drop regions that are not worth their code.
        generated: passes that request the code of outlined regions, and return regions without code
            to the host.
        quantization: settings for quantizing outlined regions; None to leave them in f32.
    """

    codegens: Sequence[str]
    marked: tuple[str, ...]
    partitioned: tuple[str, ...]
    generated: tuple[str, ...]
    quantization: Quantization | None = None

    @property
    def outlined(self) -> tuple[str, ...]:
        """The passes of ``marked`` and ``partitioned``, then the pass that outlines regions."""
        return (*self.marked, *self.partitioned, "rtask-outline-regions")

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

    def warn_if_nothing_is_taken(self, work: Work) -> None:
        """Warn, with the reason, if no region of the module has code.

        The module is at the stage `regions`.
        """
        if not any(CODEGEN in f.operation.attributes for f in functions(work.module)):
            problem = self._problem(copy_module(work.module))
            warn_user(f"offload: {problem}; the host computes everything", OffloadWarning)

    def _problem(self, module: ir.Module) -> str:
        """Return a message with the reason why no region has code, and advice.

        To find the reason, the passes that form regions run again on ``module``, in which the host
        computes all operations.
        """
        wanted = " or ".join(f"'{name}'" for name in self.codegens)
        _run(module, self.marked)
        supported = sum(map(len, RegionGraph.of(module).regions().values()))
        if not supported:
            return f"expected operations that {wanted} supports, found none"
        _run(module, self.partitioned)
        regions = len(RegionGraph.of(module).regions())
        if not regions:
            return (
                f"expected regions within the limits of {wanted} and worth its code, found none "
                f"(supported operations: {supported}); see limits, worth and min_macs of the code "
                "generator"
            )
        return (
            f"expected code of {wanted} for a region, found none (regions: {regions}); the log "
            "(--verbose) may tell the reason"
        )


def _run(module: ir.Module, passes: Sequence[str]) -> None:
    text = f"builtin.module({','.join(passes)})"
    run_pipeline(module, text, passes=(*PASSES, *LOWERING_PASSES))


def _observer(work: Work) -> Observer:
    samples, inputs = work.options.samples, work.signature.inputs
    assert samples is not None
    num_veus = min(work.options.num_veus, usable_cores())
    return Observer(inputs, samples.feeds(inputs), work.constants, num_veus)


def quantized_regions(form: FormRegions) -> Step:
    """Return a step that forms regions by ``form``, and stores the report in ``Work.quantized``."""

    def keep(work: Work) -> None:
        work.quantized = form(work, work.module)

    return keep
