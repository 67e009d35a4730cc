"""`rtask-merge-regions`: merges neighboring regions of a code generator."""

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
from rammer_mlir.passes.regions.region_graph import MOST_REGION_VALUES, RegionGraph


@dataclass(frozen=True)
class MergeRegions(Pass):
    """Merge neighboring regions of a code generator, without cycles between regions.

    A merged region has at most ``operands`` inputs and results together. Two regions are neighbors
    if one reads a result of the other. With ``siblings``, two regions are also neighbors if both
    read results of a third region or operation, or if a third region or operation reads results of
    both. Without ``siblings``, such regions remain separate and can run at the same time.
    """

    name: ClassVar[str] = "rtask-merge-regions"
    takes: ClassVar[Form | None] = Form.TENSORS
    only_marks: ClassVar[bool] = True

    operands: int = MOST_REGION_VALUES
    siblings: bool = False

    def check_options(self) -> None:
        """Raise an OptionError if ``operands`` is not between 2 and ``MOST_REGION_VALUES``."""
        if not 2 <= self.operands <= MOST_REGION_VALUES:
            raise OptionError(
                f"{self.name}: operands: expected 2 to {MOST_REGION_VALUES}, found {self.operands}"
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
    """The inputs and results of a region; each value is identified by a number.

    All regions have the same numbering of the block's values.

    Attributes:
        inputs: for each value from outside that the region reads, the count of the region's units
            that read the value.
        outputs: for each result of the region that is read outside, the count of units outside that
            read the result.
    """

    inputs: Mapping[int, int]
    outputs: Mapping[int, int]

    def joined(self, other: _Boundary) -> _Boundary:
        """Return the inputs and results of the union of two regions."""
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
        """The count of the region's inputs and results together."""
        return len(self.inputs) + len(self.outputs)


class _Boundaries:
    """Tests whether the union of two regions has more inputs and results than a limit allows.

    The limit is the argument ``most``. The inputs and results of each region are memoized until the
    region is merged with another.
    """

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
        """Whether the union of regions ``a`` and ``b`` has at most the allowed inputs and results.

        Inputs and results are counted together.
        """
        joined = self._of(a).joined(self._of(b))
        self._known[min(a, b), self._regions.size(a) + self._regions.size(b)] = joined
        return joined.size <= self._most

    def _of(self, node: int) -> _Boundary:
        """Return the inputs and results of the region with the index ``node``.

        They are memoized until the region is merged with another.
        """
        key = node, self._regions.size(node)
        if key not in self._known:
            units = (self._units[number] for number in self._regions.members(node))
            self._known[key] = reduce(_Boundary.joined, units)
        return self._known[key]
