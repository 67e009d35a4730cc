"""`rtask-transpose-right-sides`: chooses the layout of matrix products' right operands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.errors import OptionError
from rammer_mlir.passes.base import Form, Pass, check_least
from rammer_mlir.passes.contractions.right_side import RightSide, find_right_side
from rammer_mlir.passes.ir.boxes import PANEL_WIDTHS, WIDEST_PANEL
from rammer_mlir.passes.ir.constants import constant_arguments
from rammer_mlir.passes.ir.entry import entry_block, entry_function
from rammer_mlir.passes.ir.structured import Structured, is_generic

_FEWEST_COLUMNS = 32
"""Minimum number of columns of a copied right side: two AVX-512 registers of f32."""


@dataclass(frozen=True)
class TransposeRightSides(Pass):
    """Copy transposed right operands of products with many rows; do without copies for few rows.

    The right side of a product is its right operand. This pass changes right sides that are known
    only at run time, such as the keys in attention. A product reads its right side once for each
    register tile's rows. If the elements of a column are adjacent in memory, each element of the
    result needs a sum over a register's lanes, or each load needs a transpose. A transposing copy
    avoids both. The copy costs as much as several rows of the product, or more if it does not fit
    into a core's caches. Times of one AVX-512 core for products of rows x inner x columns of f32:

    - 1x512x256: 50 us with a copy, 13 us without
    - 8x512x256: 45 us with, 23 us without
    - 256x64x256: 56 us with, 122 us without
    - 200x1024x128: 407 us with, 555 us without
    - 64x1024x1024: 2417 us with, 1297 us without

    Copies are stored in panels of ``width`` columns if ``width`` divides the count of columns, so
    that a tile reads contiguous memory instead of a part of each row. A product of at least
    ``packed`` rows copies a right side of at least ``least`` bytes into panels even if the right
    side is not transposed. Times of the same core, with panels of 32 columns:

    - 4 products of 1024x1024x128: 8.1 ms with a copy, 10.1 ms without
    - 4 products of 1024x128x1024: 10.6 ms with, 13.9 ms without
    - 256x2048x2048: 26.4 ms with, 37.1 ms without

    If the model itself makes a transposing copy, a product reads the copy's source instead in two
    cases: it has at most ``few`` rows, or a right side of more than ``most`` bytes. A product of at
    least ``many`` rows copies a transposed right side of at most ``most`` bytes.
    """

    name: ClassVar[str] = "rtask-transpose-right-sides"
    takes: ClassVar[Form | None] = Form.TENSORS

    few: int = 8
    many: int = 32
    most: int = 512 * 1024
    packed: int = 128
    least: int = 256 * 1024
    width: int = WIDEST_PANEL

    def check_options(self) -> None:
        """Check the options.

        Raises:
            OptionError: unless 0 <= ``few`` < ``many``, the options ``most``, ``packed`` and
                ``least`` are at least 1, and ``width`` is a supported panel width.
        """
        if not 0 <= self.few < self.many:
            raise OptionError(
                f"{self.name}: few, many: expected 0 <= few < many, found {self.few} and "
                f"{self.many}"
            )
        check_least(self, 1, "most", "packed", "least")
        if self.width not in PANEL_WIDTHS:
            raise OptionError(f"{self.name}: width: expected 16 or 32 columns, found {self.width}")

    def run(self, module: ir.Module) -> None:
        """Change how products of the entry function read their right sides.

        A product reads a new copy in a faster layout, or, if the model makes a transposing copy
        that does not pay, the source of that copy.
        """
        weights = {weight.value for weight in constant_arguments(entry_function(module))}
        for op in list(entry_block(module).operations):
            side = find_right_side(Structured(op), weights) if is_generic(op) else None
            if side is not None:
                self._change(side)

    def _change(self, side: RightSide) -> None:
        is_large = side.num_bytes > self.most
        source = side.source_of_transpose()
        reads_columns = source is not None and source[1][-1] == side.inner
        if source is not None and reads_columns and (side.rows <= self.few or is_large):
            side.read_directly(*source)
            return
        is_panel = side.op.extents[side.column] % self.width == 0
        if side.is_transposed:
            if is_large or not self._pays_a_copy(side):
                return
            if is_panel:
                side.copy_in_panels(self.width)
            else:
                side.copy_transposed()
        elif source is not None and reads_columns and is_panel and self._pays_a_copy(side):
            side.copy_in_panels(self.width, *source)
        elif is_panel and side.rows >= self.packed and side.num_bytes >= self.least:
            side.copy_in_panels(self.width)

    def _pays_a_copy(self, side: RightSide) -> bool:
        columns = side.op.extents[side.column]
        return side.rows >= self.many and columns >= _FEWEST_COLUMNS
