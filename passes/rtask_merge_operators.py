"""`rtask-merge-operators`: operators of one input become one (IOS section 3, operator merge)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.errors import OptionError
from rammer_mlir.passes.base import Pass
from rammer_mlir.passes.convolution import Convolution, find_convolution
from rammer_mlir.passes.derived_weights import DerivedWeights
from rammer_mlir.passes.entry import entry_block
from rammer_mlir.passes.merged_convolutions import Window, merge_convolutions
from rammer_mlir.passes.merged_products import merge_products
from rammer_mlir.passes.product import Product, find_product


@dataclass(frozen=True)
class MergeOperators(Pass):
    """Compute convolutions or products that read the same input as one, and split its result.

    Kernels of convolutions are padded with zeros to the largest, where its windows begin and end;
    biases and activations behind them are merged as well. They are merged if that multiplies the
    arithmetic by no more than ``growth``: 1 merges kernels of equal size only.
    """

    name: ClassVar[str] = "rtask-merge-operators"

    growth: float = 1.0

    def run(self, module: ir.Module) -> None:
        """Merge what can be merged in the entry function."""
        if not 1 <= self.growth < float("inf"):
            raise OptionError(
                "rtask-merge-operators: growth: expected at least 1 and finite, found "
                f"{self.growth}"
            )
        weights = DerivedWeights(module)
        alike: dict[object, list[Convolution | Product]] = {}
        for op in entry_block(module).operations:
            found = _find(op, weights)
            if found is not None:
                alike.setdefault(found.kind, []).append(found)
        for members in alike.values():
            for group in _groups(members, self.growth):
                # What was merged before may have taken the place of an input.
                again = (_find(member.op, weights) for member in group)
                _merge([member for member in again if member is not None], weights)
        weights.finish()


def _find(op: ir.OpView, weights: DerivedWeights) -> Convolution | Product | None:
    return find_convolution(op, weights) or find_product(op, weights)


def _groups(
    members: Sequence[Convolution | Product], growth: float
) -> list[list[Convolution | Product]]:
    """Put every operator into the first group that it does not make too large."""
    found: list[list[Convolution | Product]] = []
    for member in members:
        for group in found:
            if growth_of([*group, member]) <= growth:
                group.append(member)
                break
        else:
            found.append([member])
    return [group for group in found if len(group) > 1]


def growth_of(group: Sequence[Convolution | Product]) -> float:
    """Return how many times the arithmetic becomes more when operators of one kind are merged."""
    convolutions = [member for member in group if isinstance(member, Convolution)]
    if not convolutions:
        return 1.0
    whole = Window.around(convolutions).work(convolutions)
    return whole / sum(member.work for member in convolutions)


def _merge(group: Sequence[Convolution | Product], weights: DerivedWeights) -> None:
    convolutions = [member for member in group if isinstance(member, Convolution)]
    if convolutions:
        merge_convolutions(convolutions, weights)
    else:
        merge_products([member for member in group if isinstance(member, Product)], weights)
