"""`rtask-split-regions`: cuts regions that exceed a limit, and dissolves unprofitable regions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rammer_mlir.bindings import ir
from rammer_mlir.passes.base import Form, Pass, check_least
from rammer_mlir.passes.regions.codegen import CODEGENS, Codegen, RegionFacts, answer, ask, of_type
from rammer_mlir.passes.regions.interval_partition import Limits, cut
from rammer_mlir.passes.regions.intervals import interval_sizes
from rammer_mlir.passes.regions.region_graph import MOST_REGION_VALUES, RegionGraph
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.devices.catalog import CPU, find_device


@dataclass(frozen=True)
class SplitRegions(Pass):
    """Cut regions that exceed a limit, and dissolve regions that gain too little.

    Both the code generator's limits and the options ``operations``, ``bytes`` and ``values`` apply;
    0 is no limit. A region has at most 95 inputs and results: the dialect allows 96 operands of an
    operation, and the scratch memory of the region's code is an operand too. A region is cut into
    sequences of consecutive operations. Of all such cuts, the pass takes the cut with the least
    predicted time for launches and transfers on ``device``, a name or a file, with ``num-veus``
    vEUs. A region is dissolved, so that this compiler compiles its operations, in two cases: it has
    fewer than ``min-macs`` multiply-accumulates (the code generator's own ``min_macs``, if it has
    one), or the code generator's method ``worth`` returns False for it.
    """

    name: ClassVar[str] = "rtask-split-regions"
    takes: ClassVar[Form | None] = Form.TENSORS
    only_marks: ClassVar[bool] = True

    operations: int = 0
    bytes: int = 0
    values: int = 0
    min_macs: int = 1
    device: str = CPU
    num_veus: int = 1

    def check_options(self) -> None:
        """Raise an OptionError if ``num_veus`` is below 1 or another number is negative."""
        check_least(self, 0, "operations", "bytes", "values", "min_macs")
        check_least(self, 1, "num_veus")

    def run(self, module: ir.Module) -> None:
        """Replace the mark of each region by the marks of its parts that are worth keeping."""
        device = find_device(self.device).device(self.num_veus)
        graph = RegionGraph.of(module)
        graph.quotient()
        kept: list[tuple[str, Sequence[int]]] = []
        for mark, numbers in graph.regions().items():
            codegen = CODEGENS.get(mark.name)
            for part in self._parts(graph, numbers, codegen, device):
                facts = graph.facts(part)
                if facts.macs >= self._least_macs(codegen) and _is_worth(codegen, facts, device):
                    kept.append((mark.name, part))
        graph.write(kept)

    def _parts(
        self, graph: RegionGraph, numbers: Sequence[int], codegen: Codegen, device: Device
    ) -> Iterator[Sequence[int]]:
        """Yield the parts of a region that are within the limits of ``codegen`` and of the pass.

        ``numbers`` are the indices in ``graph`` of the region's units; each part is a slice of
        them. A unit that belongs to no part leaves the region. The cut minimizes the predicted time
        of launches and transfers on ``device``.
        """
        limits = self._limits(answer(codegen, "limits", codegen.limits, Limits))

        whole = graph.facts(numbers)
        if limits.hold(whole.operations, whole.bytes, whole.values):
            yield numbers
            return
        seconds = (
            np.where(
                sizes.within(limits),
                device.launch_seconds + sizes.transfer_bytes / device.bytes_per_second,
                np.inf,
            )
            for sizes in interval_sizes(graph, numbers, limits)
        )
        for interval in cut(len(numbers), seconds):
            if interval.fits:
                yield numbers[interval.begin : interval.end]

    def _least_macs(self, codegen: Codegen) -> int:
        own: object = getattr(codegen, "min_macs", None)
        return self.min_macs if own is None else of_type(codegen, "min_macs to be an", own, int)

    def _limits(self, given: Limits) -> Limits:
        def lower(a: int, b: int) -> int:
            return min(a, b) if a and b else a or b

        return Limits(
            lower(given.operations, self.operations),
            lower(given.bytes, self.bytes),
            lower(lower(given.values, self.values), MOST_REGION_VALUES),
        )


def _is_worth(codegen: Codegen, facts: RegionFacts, device: Device) -> bool:
    return bool(ask(codegen, "worth", lambda: codegen.worth(facts, device)))
