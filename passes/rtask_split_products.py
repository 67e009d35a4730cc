"""`rtask-split-products`: splits a matrix product by rows if slices read its result in parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.passes.base import Form, Pass, check_least
from rammer_mlir.passes.contractions.product import find_product
from rammer_mlir.passes.contractions.row_readers import find_row_readers
from rammer_mlir.passes.contractions.split_product import split_product
from rammer_mlir.passes.ir.entry import entry_block
from rammer_mlir.passes.weights.derived import DerivedWeights


@dataclass(frozen=True)
class SplitProducts(Pass):
    """Cut a product with weights into products of few rows if slices read its result in parts.

    A recurrent layer projects the inputs of all time steps by a single product, and the slice of
    each time step reads some rows of the result. If the product is cut into parts, the first time
    steps need not wait for the last rows, and a layer need not wait for the last time step of the
    previous layer. The parts share an rKernel, so that a program's code is the same for sequences
    of any length. A part has at most ``rows`` rows, but at least the rows of one slice. Parts are
    of equal size; where they do not divide the product evenly, the last part recomputes some rows
    of the previous part.
    """

    name: ClassVar[str] = "rtask-split-products"
    takes: ClassVar[Form | None] = Form.TENSORS

    rows: int = 8

    def check_options(self) -> None:
        """Raise an OptionError if ``rows`` is below 1."""
        check_least(self, 1, "rows")

    def run(self, module: ir.Module) -> None:
        """Cut products into products of few rows if their results are read a few rows at a time."""
        weights = DerivedWeights(module)
        operations = list(entry_block(module).operations)
        products = [p for op in operations if (p := find_product(op, weights)) is not None]
        for product in products:
            readers = find_row_readers(product.result)
            if readers is not None:
                steps = max(1, self.rows // readers.rows)
                if steps < readers.num_steps:
                    split_product(product, readers, steps)
