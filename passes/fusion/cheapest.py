"""Searches for the grouping of operations into rOperators with the least predicted time.

The time of an rOperator includes the barrier or launch before it, which a merge saves. The search
divides the operations of a block into connected components: operations that may be fused with each
other are connected. A component that is a tree is partitioned optimally. For any other component,
the search computes several groupings, one with each of several other fusion boundaries, and takes
the cheapest. In blocks of at most ``_MOST_SEARCHED`` operations, another candidate is the grouping
by repeated merges with the largest gain, and the cheapest grouping is improved by merges and moves
of operations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

from rammer_mlir.bindings import ir
from rammer_mlir.passes.fusion.boundaries import Boundary, Parallelism, UniqueInputs
from rammer_mlir.passes.fusion.greedy import group_operations
from rammer_mlir.passes.fusion.grouping import Group, Units
from rammer_mlir.passes.fusion.operation_graph import OperationGraph
from rammer_mlir.passes.fusion.partition import Partition
from rammer_mlir.passes.fusion.tree_cuts import Unit, cheapest_cuts
from rammer_mlir.passes.fusion.unit_costs import UnitCosts
from rammer_mlir.scheduling.device_costs import Device

RULES: tuple[Boundary, ...] = (Parallelism(), *(UniqueInputs(most) for most in range(9)))
"""The boundaries whose greedy groupings are the starting points of the search."""


_MOST_SEARCHED = 2000
"""Maximum number of operations of a block for the full search.

Each improvement takes time proportional to the block. In larger blocks, the groups of
``_FEW_RULES`` are compared without improving them.
"""

_FEW_RULES: tuple[Boundary, ...] = (Parallelism(), UniqueInputs(3), UniqueInputs(0))
"""The boundaries whose groups are compared in large blocks."""


def group_by_cost(block: ir.Block, device: Device, *, launches: bool = False) -> list[Group]:
    """Return the block's operations, partitioned into the rOperators with the least predicted time.

    Args:
        block: the block of the entry function.
        device: the device whose cost model predicts times.
        launches: whether each rOperator is a separate launch; otherwise a barrier precedes it.
    """
    return CheapestGroups(block, device, launches=launches).groups()


class CheapestGroups:
    """Searches for the grouping of a block's operations with the least predicted time."""

    def __init__(self, block: ir.Block, device: Device, *, launches: bool = False) -> None:
        """Read the block, which must not change during the search.

        The cost model of ``device`` predicts times. ``launches`` is True if each rOperator is a
        separate launch on the device.
        """
        self._block = block
        self._units = Units(gathers=True)
        self._graph = OperationGraph(block, self._units)
        self._fusable = frozenset(self._graph.fusable)
        self._number = {op.operation: n for n, op in enumerate(self._graph.operations)}
        self._is_large = len(self._graph.operations) > _MOST_SEARCHED
        self.costs = UnitCosts(self._graph, self._units, device, launches=launches)

    def groups(self) -> list[Group]:
        """Return the groups with the least predicted time, ordered by their last operations."""
        graph = self._graph
        partition = Partition(graph.sources, graph.readers, self.costs.seconds)
        partition.put(map(Unit, graph.alone))
        others: list[list[int]] = []
        for component in self._components():
            if self._is_tree(component):
                self._cut(partition, component)
            else:
                others.append(component)
        rules = _FEW_RULES if self._is_large else RULES
        starts = [self._units_of(rule) for rule in rules] if others else []
        for component in others:
            self._solve(partition, component, starts)
        fused = [self._group(unit) for unit in partition.units(graph.fusable)]
        alone = [Group(list(graph.members(unit)), unit[0], None) for unit in graph.alone]
        return sorted([*fused, *alone], key=lambda g: self._number[g.operations[-1].operation])

    def price(self, groups: Sequence[Group]) -> float:
        """Return the sum of the predicted seconds of ``groups``.

        Groups that cannot be tiled are left out.
        """
        units = map(self._unit, groups)
        return sum(self.costs.seconds(unit) for unit in units if unit <= self._fusable)

    def _unit(self, group: Group) -> Unit:
        return Unit(self._number[op.operation] for op in group.operations)

    def _cut(self, partition: Partition, tree: Sequence[int]) -> None:
        """Put units of least predicted time that cover the operations ``tree`` into ``partition``.

        ``tree`` lists the numbers of operations that form a tree: each has at most one reader.
        """
        inside = set(tree)
        sources = {number: self._graph.sources[number] & inside for number in tree}
        partition.put(cheapest_cuts(tree, sources, self.costs.seconds))

    def _group(self, unit: Unit) -> Group:
        members = list(self._graph.members(unit))
        return Group(members, min(unit), self._units.space(members))

    def _solve(
        self, partition: Partition, component: Sequence[int], starts: Sequence[Sequence[Unit]]
    ) -> None:
        """Put units of low predicted time that cover operations ``component`` into ``partition``.

        Args:
            partition: the partition of the block's operations into units.
            component: the numbers of the operations of a connected component.
            starts: partitions of the whole block. The search takes the partition that is cheapest
                for the component. In small blocks, it also tries to merge the units with the
                largest gain repeatedly, and then improves the cheapest partition by merges and
                moves.
        """
        alone = [Unit([number]) for number in component]
        if not self._is_large:
            partition.merge(component)
        best, price = partition.units(component), partition.price(component)
        inside = set(component)
        for start in starts:
            partition.put(alone)
            # Operations of units that the cost model forbids stay alone.
            units = [u for u in start if u <= inside and self.costs.seconds(u) < inf]
            if partition.try_put(units) and partition.price(component) < price:
                best, price = partition.units(component), partition.price(component)
        partition.put(alone)
        partition.put(best)
        if not self._is_large:
            partition.improve(component)

    def _units_of(self, rule: Boundary) -> list[Unit]:
        """Return the units of the block that greedy grouping by the boundary ``rule`` forms."""
        units = self._units if rule.gathers else None
        return [self._unit(group) for group in group_operations(self._block, rule, units)]

    def _components(self) -> list[list[int]]:
        """Return the connected components of fusable operations, as lists of operation numbers.

        An edge connects two operations that may be fused with each other.
        """
        found: list[list[int]] = []
        left = set(self._graph.fusable)
        while left:
            pending, component = [min(left)], list[int]()
            while pending:
                number = pending.pop()
                if number in left:
                    left.remove(number)
                    component.append(number)
                    pending.extend(self._partners(number))
            found.append(sorted(component))
        return found

    def _partners(self, number: int) -> Iterator[int]:
        """Yield the producers and readers with which operation ``number`` may be fused."""
        for other in (*self._graph.sources[number], *self._graph.readers[number]):
            if other in self._fusable and self._units.space(self._graph.members((number, other))):
                yield other

    def _is_tree(self, component: Sequence[int]) -> bool:
        """Whether the operations of a component form a tree, whose root is the last operation.

        ``component`` lists the numbers of the operations in order. In a tree, each operation but
        the last has exactly one reader, which is in the component.
        """
        inside = set(component)
        return all(
            len(self._graph.readers[number]) == 1 and self._graph.readers[number] <= inside
            for number in component[:-1]
        )
