"""`rtask-batch-products`: merges matrix products of few rows that have the same right operand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import ClassVar

from rammer_mlir.bindings import ir, tensor
from rammer_mlir.passes.base import Form, Pass, check_least
from rammer_mlir.passes.contractions.product import Product, emit_product, find_product
from rammer_mlir.passes.contractions.row_batches import choose_batches
from rammer_mlir.passes.ir.entry import entry_block
from rammer_mlir.passes.ir.structured import element_bytes, shape_of
from rammer_mlir.passes.weights.derived import DerivedWeights
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.devices.catalog import find_device


@dataclass(frozen=True)
class BatchProducts(Pass):
    """Merge products that multiply matrices of few rows by the same weights into one product.

    The matrices are concatenated into one matrix of up to ``rows`` rows. Products that depend on
    each other, like those of a recurrent layer's states, are not merged. Products with weights of
    fewer than ``bytes`` bytes are not merged either, because such weights stay in the first-level
    cache.

    If ``device`` (a name or a file) is given, products are merged only if its ``num-veus`` vEUs
    need at least as much time to read an element of the weights as to execute two multiply-adds. On
    other devices, whose vEUs keep the weights in private memories, merging gains nothing and delays
    products until all rows of the merged matrix are known.
    """

    name: ClassVar[str] = "rtask-batch-products"
    takes: ClassVar[Form | None] = Form.TENSORS

    rows: int = 16
    bytes: int = 1 << 15
    device: str = ""
    num_veus: int = 1

    def check_options(self) -> None:
        """Raise an OptionError if ``rows`` or ``num_veus`` is below 1, or ``bytes`` negative."""
        check_least(self, 1, "rows", "num_veus")
        check_least(self, 0, "bytes")

    def run(self, module: ir.Module) -> None:
        """Merge products of the entry function, and sort the function's operations topologically.

        The module stays unchanged if no products can be merged, or if ``device`` reads an element
        of the weights in less time than two multiply-adds take.
        """
        if self.device and not _is_slow_to_read(find_device(self.device).device(self.num_veus)):
            return
        weights = DerivedWeights(module)
        *operations, end = entry_block(module).operations
        products = {
            number: product
            for number, op in enumerate(operations)
            if (product := find_product(op, weights)) is not None
            and _bytes_of(product.weight) >= self.bytes
        }
        order = choose_batches(operations, list(products.values()), self.rows)
        if len(order) == len(operations):
            return
        for numbers in order:
            if len(numbers) == 1:
                operations[numbers[0]].operation.move_before(end.operation)
            else:
                _batch([products[number] for number in numbers], end)


def _is_slow_to_read(device: Device) -> bool:
    """Whether reading an f32 weight takes at least as long as two multiply-adds with it.

    Both times are for all vEUs of the device working together.
    """
    most = device.bytes_per_second * device.num_veus
    reading = 4 / min(device.total_bytes_per_second, most)
    multiplying = 2 / (device.flops_per_second * device.num_veus)
    return reading >= 2 * multiplying


def _bytes_of(weight: ir.Value) -> int:
    return prod(shape_of(weight)) * element_bytes(weight.type)


def _batch(members: Sequence[Product], end: ir.OpView) -> None:
    """Replace products with the same weights by one product of their concatenated left matrices.

    Each old result becomes a slice of the new product's result. The new operations stand before
    ``end``, the block's terminator.
    """
    first = members[0]
    rows = [member.rows for member in members]
    matrices = [member.matrix for member in members]
    with ir.InsertionPoint(end), first.op.operation.location:
        element = ir.RankedTensorType(matrices[0].type).element_type
        kind = ir.RankedTensorType.get([sum(rows), shape_of(matrices[0])[1]], element)
        matrix = tensor.ConcatOp(kind, 0, matrices).result
        result = emit_product(matrix, first.weight, first.is_transposed)
        for member, offset in zip(members, accumulate(rows, initial=0), strict=False):
            old = member.op.operation.results[0]
            part = tensor.ExtractSliceOp(
                old.type, result, [], [], [], [offset, 0], shape_of(old), [1, 1]
            )
            old.replace_all_uses_with(part.result)
    for member in members:
        member.op.operation.erase()
