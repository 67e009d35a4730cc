"""rKernels `row-products`: products of two matrices in C, with an rTask for each row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.extend import Box, OfferedOperator, external_rkernel

_SOURCE = """
#include <stdint.h>
int32_t {symbol}(int64_t row, const float *x, const float *w, float *y) {{
  x += {k} * row, y += {n} * row;
  for (int j = 0; j < {n}; j++) y[j] = 0;
  for (int i = 0; i < {k}; i++)
    for (int j = 0; j < {n}; j++) y[j] += x[i] * w[{n} * i + j];
  return 0; /* another number is an error of the run */
}}"""

_PRODUCT = [
    "arith.constant", "tensor.empty", "linalg.generic", "arith.mulf", "arith.addf",
]  # fmt: skip
"""Operations of a product, beside the `linalg.generic` that fills its result with zeros."""

_MAPS = (
    "affine_map<(d0, d1, d2) -> (d0, d2)>",
    "affine_map<(d0, d1, d2) -> (d2, d1)>",
    "affine_map<(d0, d1, d2) -> (d0, d1)>",
)


class RowProducts:
    """Offers an rKernel for each product of f32 matrices in plain row-major order."""

    name: ClassVar[str] = "row-products"

    def offer(self, operator: OfferedOperator) -> Sequence[ir.Module]:
        """Return the rKernel; none for other rOperators, or other targets than CPUs."""
        if not operator.target.startswith("cpu") or not _is_product(operator):
            return []
        (m, k), (_, n) = (ir.RankedTensorType(kind).shape for kind in operator.inputs)
        symbol = f"row_products_{k}_{n}"
        row: dict[int, Box] = {0: [("d0", 1), (0, k)]}
        return [
            external_rkernel(
                operator, _SOURCE.format(symbol=symbol, k=k, n=n), symbol,
                num_rtasks=m, reads=row, writes={0: [("d0", 1), (0, n)]},
                operations=2 * k * n, num_bytes=4 * (k + k * n + n),
            )
        ]  # fmt: skip


def _is_product(operator: OfferedOperator) -> bool:
    """Whether the rOperator is a single product, without transposed or packed operands."""
    types = (*operator.inputs, *operator.outputs)
    f32 = ir.F32Type.get()
    kinds = [ir.RankedTensorType(kind) for kind in types]
    if len(kinds) != 3 or any(kind.rank != 2 or kind.element_type != f32 for kind in kinds):
        return False
    names: list[str] = []
    maps: list[str] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        names.append(op.name)
        if op.name == "linalg.generic":
            maps.extend(str(map_) for map_ in ir.ArrayAttr(op.attributes["indexing_maps"]))
        return ir.WalkResult.ADVANCE

    operator.function.operation.walk(visit)
    parts = [name for name in names if name not in ("func.func", "func.return", "linalg.yield")]
    return sorted(parts) == sorted([*_PRODUCT, "linalg.generic"]) and tuple(maps[-3:]) == _MAPS
