"""A pass, a provider of rKernels and a cost function, as a file that `--plugin` executes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.extend import (
    OfferedOperator,
    Pass,
    register_costs,
    register_pass,
    register_rkernels,
)
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import RKernel

ROWS = """
"rtask.kernel"() {function = @rows, num_rtasks = 4 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 16 : i64, bytes = 128 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0, 0)>, sizes = array<i64: 1, 16>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0, 0)>, sizes = array<i64: 1, 16>}]
} : () -> ()
func.func private @rows(%id: index, %a: tensor<4x16xf32>, %out: tensor<4x16xf32>)
    -> tensor<4x16xf32> {
  %row = tensor.extract_slice %a[%id, 0] [1, 16] [1, 1] : tensor<4x16xf32> to tensor<1x16xf32>
  %to = tensor.extract_slice %out[%id, 0] [1, 16] [1, 1] : tensor<4x16xf32> to tensor<1x16xf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>,
      affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%row : tensor<1x16xf32>) outs(%to : tensor<1x16xf32>) {
  ^bb0(%in: f32, %old: f32):
    %twice = arith.addf %in, %in : f32
    linalg.yield %twice : f32
  } -> tensor<1x16xf32>
  %all = tensor.insert_slice %sum into %out[%id, 0] [1, 16] [1, 1]
      : tensor<1x16xf32> into tensor<4x16xf32>
  return %all : tensor<4x16xf32>
}
"""


@dataclass(frozen=True)
class MarkFunctions(Pass):
    """Write an attribute on every function."""

    name: ClassVar[str] = "mark-functions"

    mark: str = "seen"
    times: tuple[int, ...] = (1,)

    def run(self, module: ir.Module) -> None:
        """Mark the functions of the module."""
        for op in module.body.operations:
            if op.operation.name == "func.func":
                op.operation.attributes[self.mark] = ir.StringAttr.get(str(sum(self.times)))


class Rows:
    """Offers rKernels that compute one row of four."""

    name: ClassVar[str] = "rows"

    def offer(self, operator: OfferedOperator) -> Sequence[ir.Module]:
        """Return one rKernel for operators on four rows of sixteen numbers."""
        rows = ir.Type.parse("tensor<4x16xf32>")
        fits = operator.inputs == (rows,) and operator.outputs == (rows,)
        return [ir.Module.parse(ROWS)] if fits else []


class WrongRows(Rows):
    """Offers an rKernel that leaves two rows out."""

    name: ClassVar[str] = "wrong-rows"

    def offer(self, operator: OfferedOperator) -> Sequence[ir.Module]:
        """Return an rKernel of two rTasks."""
        return [ir.Module.parse(ROWS.replace("num_rtasks = 4", "num_rtasks = 2"))]


def rows_first(kernel: RKernel, device: Device) -> float:
    """Return a time by which rKernels of the provider are the fastest."""
    return 1e-12 if "rows" in kernel.name else 1e-3


register_pass(MarkFunctions)
register_costs("rows-first", rows_first)
register_rkernels(Rows())
register_rkernels(WrongRows())
