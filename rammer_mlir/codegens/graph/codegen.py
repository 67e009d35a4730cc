"""Defines a code generator for each engine that runs JSON graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rammer_mlir.codegens.graph.translate import graph_of, is_expressible
from rammer_mlir.codegens.inexpressible import NotExpressibleError
from rammer_mlir.codegens.packages import OfPackages
from rammer_mlir.engines.graphs import onnxruntime_engine, openvino_engine
from rammer_mlir.engines.graphs.thread_option import ALL_THREADS
from rammer_mlir.passes.regions.codegen import RegionFacts
from rammer_mlir.passes.regions.interval_partition import Limits
from rammer_mlir.passes.regions.patterns import CompositePattern
from rammer_mlir.passes.regions.reading import Reading
from rammer_mlir.passes.regions.region import Region, RegionCode
from rammer_mlir.programs.module_options import ModuleOption
from rammer_mlir.programs.modules import Requirement
from rammer_mlir.scheduling.device_costs import Device


class _Graphs(OfPackages):
    """Translates a region to a JSON graph that the engine ``name`` runs as a single rTask.

    With the option ``threads=all``, no other rTask runs at the same time.
    """

    name: ClassVar[str]
    options: ClassVar[tuple[ModuleOption, ...]] = ()

    def patterns(self) -> Sequence[CompositePattern]:
        """Return no patterns: engines fuse operators themselves."""
        return ()

    def supports(self, reading: Reading) -> bool:
        """Return whether the operators of JSON graphs can express an operation."""
        return is_expressible(reading)

    def limits(self) -> Limits:
        """Return no limits on the size of regions."""
        return Limits()

    def worth(self, facts: RegionFacts, device: Device) -> bool:
        """Return whether a region has multiply-accumulates; other regions are not worth a call."""
        return facts.macs > 0

    def generate(self, region: Region) -> RegionCode | None:
        """Return a region's JSON graph; None if graphs cannot express one of its operations."""
        try:
            graph = graph_of(region)
        except NotExpressibleError:
            return None
        is_exclusive = region.options.get("threads") == ALL_THREADS
        return RegionCode(
            graph.to_json(), region.name, form="graph", engine=self.name, needs=self.needs,
            has_state=True, holds_weights=True, grain="device" if is_exclusive else "region",
        )  # fmt: skip


class NumPyGraphs(_Graphs):
    """Translates regions to JSON graphs for the engine ``numpy``, a slow reference for tests."""

    name: ClassVar[str] = "numpy"


class OnnxRuntimeGraphs(_Graphs):
    """Translates regions to JSON graphs, which ONNX Runtime runs, by default on a vEU's thread."""

    name: ClassVar[str] = "onnxruntime"
    options: ClassVar[tuple[ModuleOption, ...]] = (onnxruntime_engine.THREADS,)
    needs: ClassVar[tuple[Requirement, ...]] = (
        Requirement("onnxruntime", library="/libonnxruntime.so.*", extra="offload-onnxruntime"),
    )


class OpenVinoGraphs(_Graphs):
    """Translates regions to JSON graphs, which OpenVINO runs, by default on a vEU's thread."""

    name: ClassVar[str] = "openvino"
    options: ClassVar[tuple[ModuleOption, ...]] = (openvino_engine.THREADS,)
    needs: ClassVar[tuple[Requirement, ...]] = (
        Requirement("openvino", library="/libopenvino_c.so.*", extra="offload-openvino"),
    )

    def supports(self, reading: Reading) -> bool:
        """Return whether graphs can express an operation; False if any of its tensors is f16."""
        # OpenVINO would compute f16 in another type.
        operands = (*reading.inputs, reading.output)
        return super().supports(reading) and all(o.element_type != "f16" for o in operands)
