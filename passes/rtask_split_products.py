"""`rtask-split-products`: a product that is used row by row is computed some rows at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.errors import OptionError
from rammer_mlir.passes.base import Form, Pass
from rammer_mlir.passes.contractions.product import find_product
from rammer_mlir.passes.contractions.row_readers import find_row_readers
from rammer_mlir.passes.contractions.split_product import split_product
from rammer_mlir.passes.ir.entry import entry_block
from rammer_mlir.passes.weights.derived import DerivedWeights


@dataclass(frozen=True)
class SplitProducts(Pass):
    """Cut products with weights into products of ``rows`` rows, where results are read row by row.

    Recurrent layers project the inputs of all steps at once, and each step reads its own rows. In
    parts, the first steps need not wait for the last rows, nor a layer for the last step of the one
    before; and the parts share one rKernel, so that a program's code is the same for sequences of
    any length. Parts are equal: where rows are left over, the last part repeats some of the one
    before it.
    """

    name: ClassVar[str] = "rtask-split-products"
    takes: ClassVar[Form | None] = Form.TENSORS

    rows: int = 8

    def check_options(self) -> None:
        """Refuse values of options that have no meaning."""
        if self.rows < 1:
            raise OptionError(f"rtask-split-products: rows: expected at least 1, found {self.rows}")

    def run(self, module: ir.Module) -> None:
        """Cut what can be cut in the entry function."""
        weights = DerivedWeights(module)
        operations = list(entry_block(module).operations)
        products = [p for op in operations if (p := find_product(op, weights)) is not None]
        for product in products:
            readers = find_row_readers(product.result)
            if readers is not None:
                steps = max(1, self.rows // readers.rows)
                if steps < readers.num_steps:
                    split_product(product, readers, steps)
