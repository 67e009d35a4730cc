"""`rtask-merge-regions`: regions of one code generator that follow each other become one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.errors import OptionError
from rammer_mlir.passes.base import Pass
from rammer_mlir.passes.regions.quotient import Quotient, merge_regions
from rammer_mlir.passes.regions.region_graph import RegionGraph

_MOST_OPERANDS = 96
"""Inputs and results of a region: an operation of the dialect takes no more."""


@dataclass(frozen=True)
class MergeRegions(Pass):
    """Merge neighbouring regions of a code generator as far as no two regions wait for each other.

    A region has at most ``operands`` inputs and results. With ``siblings``, regions that read from
    one operation, or that one operation reads from, are neighbours too; without, they stay apart
    and can run at the same time.
    """

    name: ClassVar[str] = "rtask-merge-regions"

    operands: int = _MOST_OPERANDS
    siblings: bool = False

    def run(self, module: ir.Module) -> None:
        """Merge the regions of the entry function."""
        if not 2 <= self.operands <= _MOST_OPERANDS:
            raise OptionError(
                f"'{self.name}': operands: expected 2 to {_MOST_OPERANDS}, found {self.operands}"
            )
        graph = RegionGraph.of(module)
        regions = graph.quotient()
        codegens = graph.codegens
        boundaries = _Boundaries(graph, regions, self.operands)
        merge_regions(regions, codegens, boundaries.fit, siblings=self.siblings)
        found = ((codegens[node], regions.members(node)) for node in regions.order())
        graph.write((name, numbers) for name, numbers in found if name is not None)


class _Boundaries:
    """Counts inputs and results of regions, exactly where the sum of two exceeds the limit."""

    def __init__(self, graph: RegionGraph, regions: Quotient, most: int) -> None:
        self._graph, self._regions, self._most = graph, regions, most
        self._bounds: dict[tuple[int, int], int] = {}

    def fit(self, a: int, b: int) -> bool:
        """Whether two regions have few enough inputs and results as one."""
        members = [*self._regions.members(a), *self._regions.members(b)]
        bound = self._bound(a) + self._bound(b)
        if bound > self._most:
            bound = self._count(members)
        self._bounds[min(a, b), len(members)] = bound
        return bound <= self._most

    def _bound(self, node: int) -> int:
        members = self._regions.members(node)
        key = node, len(members)
        if key not in self._bounds:
            self._bounds[key] = self._count(members)
        return self._bounds[key]

    def _count(self, members: Sequence[int]) -> int:
        numbers = sorted(members)
        return len(self._graph.inputs(numbers)) + len(self._graph.outputs(numbers))
