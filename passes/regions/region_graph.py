"""Builds the graph of an entry function's units, with the regions that they form.

A unit is a composite (a match of a code generator's pattern), or the IR operations of a recognized
tensor operation such as a convolution, or any other single operation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from rammer_mlir.bindings import ir
from rammer_mlir.dialects.rtask.mixed_types import MOST_VALUES
from rammer_mlir.passes.base import OperationError
from rammer_mlir.passes.ir.entry import entry_block
from rammer_mlir.passes.regions.annotations import REGION, Mark, remove_mark, set_mark
from rammer_mlir.passes.regions.codegen import RegionFacts
from rammer_mlir.passes.regions.quotient import Quotient, merge_regions
from rammer_mlir.passes.regions.units import Unit, is_used_outside, units_of
from rammer_mlir.passes.regions.weights import weights_of

MOST_REGION_VALUES = MOST_VALUES - 1
"""Maximum number of inputs and results of a region together.

On buffers, both are operands of the region's rOperator, and so is the scratch memory of its code.
"""


@dataclass(frozen=True)
class RegionGraph:
    """The graph of the units of a module's entry function, with their assignment to regions.

    A unit is a composite (a match of a code generator's pattern) or a single tensor operation.

    Attributes:
        units: the units in topological order; other attributes and methods name a unit by its index
            in ``units``.
    """

    units: Sequence[Unit]

    @staticmethod
    def of(module: ir.Module) -> RegionGraph:
        """Return the graph of a module's entry function.

        Raises:
            OperationError: if ``rtask.composite`` or ``rtask.region`` attributes are malformed or
                contradict each other.
        """
        return RegionGraph(units_of(entry_block(module), weights_of(module)))

    @cached_property
    def sources(self) -> Sequence[Sequence[int]]:
        """For each unit, the indices of the units whose results the unit reads, ascending."""
        number = {op: n for n, unit in enumerate(self.units) for op in unit.operations}
        return [
            sorted(
                {
                    number[value.owner.operation]
                    for value in unit.inputs
                    if not isinstance(value.owner, ir.Block) and value.owner.operation in number
                }
            )
            for unit in self.units
        ]

    @property
    def codegens(self) -> list[str | None]:
        """The name of each unit's code generator; None for a unit outside of regions."""
        return [None if unit.region is None else unit.region.name for unit in self.units]

    def regions(self) -> dict[Mark, list[int]]:
        """Return the indices of each region's units, in ascending order.

        A key is the region's mark: the code generator's name and the region's number.

        Raises:
            OperationError: if regions of different code generators have the same number.
        """
        found: dict[Mark, list[int]] = {}
        numbers: dict[int, Mark] = {}
        for number, unit in enumerate(self.units):
            mark = unit.region
            if mark is None:
                continue
            if numbers.setdefault(mark.number, mark) != mark:
                raise OperationError(
                    unit.root,
                    f"attribute '{REGION}': expected region {mark.number} to be for "
                    f"'{numbers[mark.number].name}' everywhere, found '{mark.name}'; give it "
                    "another id",
                )
            found.setdefault(mark, []).append(number)
        return found

    def quotient(self) -> Quotient:
        """Return the graph with regions contracted to nodes.

        Raises:
            OperationError: if a path leaves a region and returns, so that the graph has a cycle.
        """
        graph = Quotient(self.sources)
        regions = self.regions()
        # Neighbors first: the few remaining nodes are tried in pairs.
        merge_regions(graph, [u.region and f"{u.region.number}" for u in self.units])
        for mark, numbers in regions.items():
            while len({graph.find(number) for number in numbers}) > 1:
                if not _merge_any(graph, numbers):
                    raise OperationError(
                        self.units[numbers[-1]].root,
                        f"region {mark.number} of '{mark.name}': expected no path that leaves the "
                        "region and comes back, or that goes through another region and back, "
                        "found one; run rtask-annotate-regions on operations without the attribute",
                    )
        return graph

    def facts(self, numbers: Sequence[int]) -> RegionFacts:
        """Return recognized operations, sizes and costs of the region of the units ``numbers``."""
        units = [self.units[number] for number in numbers]
        sizes = {value: size for unit in units for value, size in unit.num_bytes.items()}
        boundary = [*self.inputs(numbers), *self.outputs(numbers)]
        return RegionFacts(
            readings=tuple(reading for unit in units for reading in unit.readings),
            operations=len(units),
            macs=sum(unit.macs for unit in units),
            bytes=sum(sizes.values()),
            transfer_bytes=sum(sizes[value] for value in boundary),
            values=len(boundary),
        )

    @cached_property
    def num_readers(self) -> Mapping[ir.Value, int]:
        """For each value, the count of units that read the value.

        A use outside of all units, such as a return, counts as one more unit.
        """
        inside = {op for unit in self.units for op in unit.operations}
        found = Counter(value for unit in self.units for value in unit.inputs)
        found.update(v for unit in self.units for v in unit.outputs if is_used_outside(v, inside))
        return found

    def inputs(self, numbers: Sequence[int]) -> list[ir.Value]:
        """Return the values that the units ``numbers`` read but do not compute.

        The values are in the order of first use.
        """
        inside = {op for number in numbers for op in self.units[number].operations}
        values = dict.fromkeys(v for number in numbers for v in self.units[number].inputs)
        return [
            v for v in values if isinstance(v.owner, ir.Block) or v.owner.operation not in inside
        ]

    def outputs(self, numbers: Sequence[int]) -> list[ir.Value]:
        """Return the results of the units ``numbers`` that operations outside of these units use.

        The results are in the order of the units.
        """
        inside = {op for number in numbers for op in self.units[number].operations}
        values = (v for number in numbers for v in self.units[number].outputs)
        return [value for value in values if is_used_outside(value, inside)]

    def write(self, regions: Iterable[tuple[str, Sequence[int]]]) -> None:
        """Replace the ``rtask.region`` attributes of all operations by those of ``regions``.

        Args:
            regions: for each region, the name of its code generator and the indices of its units.
                Regions are numbered in the order of their first units.
        """
        for unit in self.units:
            remove_mark(unit.operations, REGION)
        ordered = sorted(regions, key=lambda region: region[1][0])
        for identifier, (codegen, numbers) in enumerate(ordered):
            for number in numbers:
                set_mark(self.units[number].operations, REGION, Mark(codegen, identifier))


def _merge_any(graph: Quotient, numbers: Sequence[int]) -> bool:
    """Contract the first pair of a region's nodes whose contraction makes no cycle.

    Return False if there is no such pair. ``numbers`` are the indices of the region's units.
    """
    nodes = sorted({graph.find(number) for number in numbers})
    for place, a in enumerate(nodes):
        for b in nodes[place + 1 :]:
            if graph.may_merge(a, b):
                graph.merge(a, b)
                return True
    return False
