"""Chooses products with the same weights to merge into a single product with all of their rows.

An unrolled recurrent layer multiplies the input of each time step by the same weights. These
products are independent, so several can be merged, which reads the weights only once (Appleyard et
al., *Optimizing Performance of Recurrent Neural Networks on GPUs*, 2016). A *batch* is a list of
products that become one product.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from rammer_mlir.bindings import ir
from rammer_mlir.passes.contractions.product import Product
from rammer_mlir.passes.ir.stable_order import stable_order
from rammer_mlir.passes.ir.structured import captured_values


def choose_batches(
    operations: Sequence[ir.OpView], products: Sequence[Product], most_rows: int
) -> list[list[int]]:
    """Return batches of products, and all other operations, in an order that keeps dependences.

    Each element of the result is a list of operation numbers: the products of a batch, which become
    one product, or a single operation that is in no batch.

    Args:
        operations: the operations of an MLIR block in order; their positions are their numbers.
        products: the products among ``operations`` that may become parts of a batch.
        most_rows: maximum number of rows of all products of a batch together. A product with more
            rows than half of this number is not batched.
    """
    alike: dict[object, list[Product]] = {}
    for product in products:
        if 2 * product.rows <= most_rows:
            key = product.weight, product.is_transposed, product.rows
            alike.setdefault(key, []).append(product)
    several = [same for same in alike.values() if len(same) > 1]
    if not several:
        return [[number] for number in range(len(operations))]
    graph = _Dependences(operations)
    numbers = {op.operation: number for number, op in enumerate(operations)}
    for same in several:
        members = [numbers[product.op.operation] for product in same]
        for peers in graph.peers(members):
            for batch in equal_parts(peers, most_rows // same[0].rows):
                graph.contract(batch)
    return graph.order()


def equal_parts(numbers: Sequence[int], most: int) -> list[Sequence[int]]:
    """Cut a sequence into consecutive parts of at most ``most`` elements, and return the parts.

    If the length of the sequence has a divisor above ``most / 2`` and up to ``most``, all parts
    have the largest such divisor as length, so that the products made from them share code.
    Otherwise, the lengths differ by at most one.
    """
    total = len(numbers)
    sizes = [n for n in range(min(most, total), most // 2, -1) if total % n == 0]
    if sizes:
        return [numbers[at : at + sizes[0]] for at in range(0, total, sizes[0])]
    count = -(-total // most)
    bounds = [total * n // count for n in range(count + 1)]
    return [numbers[a:b] for a, b in itertools.pairwise(bounds)]


class _Dependences:
    """The dependence graph of an MLIR block's operations.

    At first, each operation is a node. Then the products of each batch become a single node.
    """

    def __init__(self, operations: Sequence[ir.OpView]) -> None:
        numbers = {op.operation: number for number, op in enumerate(operations)}
        self._members = {number: [number] for number in range(len(operations))}
        self._sources: dict[int, set[int]] = {}
        self._readers: dict[int, set[int]] = {number: set() for number in self._members}
        for number, op in enumerate(operations):
            used = [*op.operation.operands, *captured_values(op)]
            owners = (v.owner for v in used if not isinstance(v.owner, ir.Block))
            self._sources[number] = {numbers[owner.operation] for owner in owners}
            for source in self._sources[number]:
                self._readers[source].add(number)
        self._nodes: list[int] | None = None

    def order(self) -> list[list[int]]:
        """Return the nodes in topological order, each as the list of its operations' numbers.

        Independent nodes keep the order of the block.
        """
        return [self._members[node] for node in self._order()]

    def peers(self, numbers: Iterable[int]) -> list[list[int]]:
        """Partition the operations with these numbers into lists of independent operations.

        No operation of a list depends on another operation of the list, directly or indirectly.
        Each list is in ascending order.
        """
        members = set(numbers)
        levels: dict[int, int] = {}
        found: dict[int, list[int]] = {}
        for node in self._order():
            level = max((levels[source] for source in self._sources[node]), default=0)
            if node in members:
                found.setdefault(level, []).append(node)
                level += 1
            levels[node] = level
        return [sorted(part) for part in found.values()]

    def contract(self, nodes: Sequence[int]) -> None:
        """Merge several independent nodes into one node, which has all their operations."""
        kept, *others = nodes
        for node in others:
            for source in self._sources.pop(node):
                self._readers[source].remove(node)
                self._readers[source].add(kept)
                self._sources[kept].add(source)
            for reader in self._readers.pop(node):
                self._sources[reader].remove(node)
                self._sources[reader].add(kept)
                self._readers[kept].add(reader)
            self._members[kept] += self._members.pop(node)
        self._nodes = None

    def _order(self) -> list[int]:
        if self._nodes is None:
            self._nodes = stable_order(self._sources)
        return self._nodes
