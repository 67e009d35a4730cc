"""Chooses the operators to merge, by the stage search of the IOS paper (Ding et al., 2021).

The search divides the graph of tensor operations into stages by dynamic programming. In a stage,
operators are either merged, or run concurrently.
"""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.bindings import ir
from rammer_mlir.passes.contractions.convolution import Convolution
from rammer_mlir.passes.contractions.product import Product
from rammer_mlir.passes.fusion.greedy import group_operations
from rammer_mlir.passes.fusion.grouping import CONCAT, Group, is_view
from rammer_mlir.passes.ir.stable_order import stable_order
from rammer_mlir.passes.ir.structured import (
    Structured,
    captured_values,
    element_bytes,
    is_generic,
    shape_of,
)
from rammer_mlir.passes.merging.growth import Member, growth_of
from rammer_mlir.passes.merging.loop_nest import (
    LoopNest,
    Operand,
    convolutions_nest,
    copy_nest,
    estimate,
    nest_of,
    products_nest,
)
from rammer_mlir.passes.weights.derived import DerivedWeights
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import RKernel
from rammer_mlir.scheduling.policies.ios_merging import MergeSearch

_INPUTS = 0
"""The index of the graph's node that stands for the model's inputs."""


def choose_groups(
    block: ir.Block,
    mergeable: Sequence[Member],
    weights: DerivedWeights,
    growth: float,
    device: Device,
) -> list[list[Member]]:
    """Return the groups of operators whose merge gives the least predicted time on a device.

    Each inner list is one group: its operators become a single operator.

    Args:
        block: the block of the entry function.
        mergeable: matmuls and convolutions; those with an equal ``kind`` may be merged.
        weights: the module's weights.
        growth: maximum factor by which a merge may increase the number of multiplications.
        device: the device whose cost model predicts times.
    """
    groups, sources = _graph(group_operations(block), weights)
    of_operation = {
        op.operation: n for n, group in enumerate(groups, start=1) for op in group.operations
    }
    members = {of_operation[member.op.operation]: member for member in mergeable}
    kernels = [
        RKernel("inputs", 1, (), ()),
        *(
            estimate(nest_of_group(members.get(n), group), device)
            for n, group in enumerate(groups, start=1)
        ),
    ]

    def merged(operators: Sequence[int]) -> list[RKernel] | None:
        together = [members[number] for number in operators]
        if growth_of(together) > growth:
            return None
        nests = [nest_of_members(together), *(copy_nest(v) for v in _copied(together))]
        return [estimate(nest, device) for nest in nests]

    kinds = [members[n].kind if n in members else None for n in range(len(kernels))]
    search = MergeSearch(kernels, sources, kinds, merged, device)
    return [[members[number] for number in chosen] for chosen in search.groups()]


def _copied(members: Sequence[Member]) -> list[ir.Value]:
    """Return the results of merged operators that need a copy of their slice of the merged result.

    A result needs a copy if a concatenation reads it. The exception is a concatenation whose
    operands are exactly the results of ``members`` in order: the merged result replaces the
    concatenation.
    """
    results = [member.result for member in members]
    joins = [
        (result, list(use.owner.operation.operands))
        for result in results
        for use in result.uses
        if use.owner.operation.name == CONCAT
    ]
    return list(dict.fromkeys(result for result, operands in joins if operands != results))


def nest_of_members(members: Sequence[Member]) -> LoopNest:
    """Return the loop nest of the contraction that replaces all ``members``.

    The members are products of the same matrix, or convolutions of the same image.
    """
    convolutions = [member for member in members if isinstance(member, Convolution)]
    if convolutions:
        return convolutions_nest(convolutions)
    return products_nest([member for member in members if isinstance(member, Product)])


def nest_of_group(member: Member | None, group: Group) -> LoopNest:
    """Return the loop nest that stands for the cost of a group of fused operations.

    This is the nest of ``member``, the group's mergeable matmul or convolution. If ``member`` is
    None, it is the costliest loop nest of the group, or, in a group without loops, a nest of one
    iteration that reads the operands.
    """
    if member is not None:
        return nest_of_members([member])
    generics = [Structured(op) for op in group.operations if is_generic(op)]
    if generics:
        return nest_of(max(generics, key=lambda op: op.operations))
    values = [value for op in group.operations for value in (*op.operation.operands,)]
    tensors = {value for value in values if isinstance(value.type, ir.RankedTensorType)}
    touched = tuple(
        Operand((None,) * len(shape_of(v)), tuple(shape_of(v)), element_bytes(v.type))
        for v in tensors
    )
    return LoopNest((1,), 1, touched, 1)


def _graph(groups: Sequence[Group], weights: DerivedWeights) -> tuple[list[Group], list[list[int]]]:
    """Return the nodes of the search's graph, and for each node the indices of its producers.

    Node 0 stands for the model's inputs. The other nodes are ``groups``, each of which consists of
    operations that will be fused into one rOperator. The returned groups are in topological order;
    the first is node 1.
    """
    number = {op.operation: n for n, group in enumerate(groups, 1) for op in group.operations}
    producers = [set[int]()]
    producers += [_producers(group, number, weights) - {n} for n, group in enumerate(groups, 1)]
    order = stable_order(dict(enumerate(producers)))  # the inputs are the first
    place = {n: position for position, n in enumerate(order)}
    sources = [sorted(place[p] for p in producers[n]) for n in order]
    return [groups[n - 1] for n in order if n != _INPUTS], sources


def _producers(group: Group, number: dict[ir.Operation, int], weights: DerivedWeights) -> set[int]:
    """Return the indices of the groups whose results a group reads, directly or through views.

    A group consists of operations that will be fused into one rOperator. ``number`` maps each
    operation to the index of its group. The model's inputs have the index ``_INPUTS``; weights are
    left out.
    """
    found: set[int] = set()
    seen: set[ir.Value] = set()
    pending = [v for op in group.operations for v in (*op.operation.operands, *captured_values(op))]
    while pending:
        value = pending.pop()
        if value in seen or value in weights:
            continue
        seen.add(value)
        if isinstance(value.owner, ir.Block):
            found.add(_INPUTS)
        elif value.owner.operation in number:
            found.add(number[value.owner.operation])
        elif is_view(value.owner):
            pending.extend(value.owner.operation.operands)
    return found
