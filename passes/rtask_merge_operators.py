"""`rtask-merge-operators`: merges operators with a common input (IOS section 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.errors import OptionError
from rammer_mlir.passes.base import Form, Pass, check_least
from rammer_mlir.passes.contractions.convolution import Convolution, find_convolution
from rammer_mlir.passes.contractions.product import Product, find_product
from rammer_mlir.passes.ir.entry import entry_block
from rammer_mlir.passes.merging.choice import choose_groups
from rammer_mlir.passes.merging.convolutions import merge_convolutions
from rammer_mlir.passes.merging.growth import Member, groups_within
from rammer_mlir.passes.merging.products import merge_products
from rammer_mlir.passes.weights.derived import DerivedWeights
from rammer_mlir.passes.weights.folded import fold_views
from rammer_mlir.scheduling.devices.catalog import find_device


@dataclass(frozen=True)
class MergeOperators(Pass):
    """Compute convolutions or products with the same input as one operation, and split the result.

    The filters of convolutions are padded with zeros to the smallest window that contains all their
    windows. Biases and activation functions that follow are merged as well. Operators are merged if
    that increases the arithmetic at most by the factor ``growth``; with ``growth`` 1, only filters
    of equal size are merged. With ``device``, a name or a file, operators are merged only if they
    form a stage of the policy `ios` and if the merge reduces the predicted time of the stage on
    ``num-veus`` vEUs.
    """

    name: ClassVar[str] = "rtask-merge-operators"
    takes: ClassVar[Form | None] = Form.TENSORS

    growth: float = 1.0
    device: str = ""
    num_veus: int = 1

    def check_options(self) -> None:
        """Raise an OptionError if ``growth`` or ``num_veus`` is below 1, or ``growth`` infinite."""
        if not 1 <= self.growth < float("inf"):
            raise OptionError(
                f"{self.name}: growth: expected at least 1 and finite, found {self.growth}"
            )
        check_least(self, 1, "num_veus")

    def run(self, module: ir.Module) -> None:
        """Merge operators with a common input in the entry function."""
        weights = DerivedWeights(module)
        block = entry_block(module)
        fold_views(block, weights)
        found = [m for op in block.operations if (m := _find(op, weights)) is not None]
        order = {id(member): number for number, member in enumerate(found)}
        for group in self._groups(block, found, weights):
            # The merged operator is inserted at the first member, which dominates all readers.
            group.sort(key=lambda member: order[id(member)])
            # Match again: an earlier merge may have replaced an input.
            again = (_find(member.op, weights) for member in group)
            _merge([member for member in again if member is not None], weights)
        weights.finish()

    def _groups(
        self, block: ir.Block, members: Sequence[Member], weights: DerivedWeights
    ) -> list[list[Member]]:
        alike: dict[object, list[Member]] = {}
        for member in members:
            alike.setdefault(member.kind, []).append(member)
        if not self.device:
            return [group for same in alike.values() for group in groups_within(same, self.growth)]
        several = [member for same in alike.values() if len(same) > 1 for member in same]
        device = find_device(self.device).device(self.num_veus)
        return choose_groups(block, several, weights, self.growth, device) if several else []


def _find(op: ir.OpView, weights: DerivedWeights) -> Member | None:
    return find_convolution(op, weights) or find_product(op, weights)


def _merge(group: Sequence[Member], weights: DerivedWeights) -> None:
    convolutions = [member for member in group if isinstance(member, Convolution)]
    if convolutions:
        merge_convolutions(convolutions, weights)
    else:
        merge_products([member for member in group if isinstance(member, Product)], weights)
