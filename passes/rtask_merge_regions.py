"""`rtask-merge-regions`: regions of one code generator that follow each other become one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.errors import OptionError
from rammer_mlir.passes.base import Form, Pass
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
    takes: ClassVar[Form | None] = Form.TENSORS
    only_marks: ClassVar[bool] = True

    operands: int = _MOST_OPERANDS
    siblings: bool = False

    def check_options(self) -> None:
        """Refuse values of options that have no meaning."""
        if not 2 <= self.operands <= _MOST_OPERANDS:
            raise OptionError(
                f"'{self.name}': operands: expected 2 to {_MOST_OPERANDS}, found {self.operands}"
            )

    def run(self, module: ir.Module) -> None:
        """Merge the regions of the entry function."""
        graph = RegionGraph.of(module)
        regions = graph.quotient()
        codegens = graph.codegens
        boundaries = _Boundaries(graph, regions, self.operands)
        merge_regions(regions, codegens, boundaries.fit, siblings=self.siblings)
        found = ((codegens[node], regions.members(node)) for node in regions.order())
        graph.write((name, numbers) for name, numbers in found if name is not None)


@dataclass(frozen=True)
class _Boundary:
    """Values, by number, that cross the boundary of a region.

    Attributes:
        inputs: for each value that the region reads, how many of its units do.
        outputs: for each value that others read, how many units outside do.
    """

    inputs: Mapping[int, int]
    outputs: Mapping[int, int]

    def joined(self, other: _Boundary) -> _Boundary:
        """Return the boundary of two regions as one."""
        inputs = Counter(self.inputs)
        inputs.update(other.inputs)
        outputs = {
            value: readers
            for value, all_readers in (*self.outputs.items(), *other.outputs.items())
            if (readers := all_readers - inputs[value]) > 0
        }
        produced = self.outputs.keys() | other.outputs.keys()
        return _Boundary({v: n for v, n in inputs.items() if v not in produced}, outputs)

    @property
    def size(self) -> int:
        """Number of inputs and results."""
        return len(self.inputs) + len(self.outputs)


class _Boundaries:
    """The boundaries of regions while they grow."""

    def __init__(self, graph: RegionGraph, regions: Quotient, most: int) -> None:
        self._regions, self._most = regions, most
        numbers: dict[ir.Value, int] = {}
        for unit in graph.units:
            for value in (*unit.inputs, *unit.outputs):
                numbers.setdefault(value, len(numbers))
        self._units = [
            _Boundary(
                {numbers[value]: 1 for value in unit.inputs},
                {numbers[value]: graph.num_readers[value] for value in unit.outputs},
            )
            for unit in graph.units
        ]
        self._known: dict[tuple[int, int], _Boundary] = {}

    def fit(self, a: int, b: int) -> bool:
        """Whether two regions have few enough inputs and results as one."""
        joined = self._of(a).joined(self._of(b))
        self._known[min(a, b), self._regions.size(a) + self._regions.size(b)] = joined
        return joined.size <= self._most

    def _of(self, node: int) -> _Boundary:
        """Return a region's boundary; a node's smallest unit and size tell what it consists of."""
        key = node, self._regions.size(node)
        if key not in self._known:
            units = (self._units[number] for number in self._regions.members(node))
            self._known[key] = reduce(_Boundary.joined, units)
        return self._known[key]
