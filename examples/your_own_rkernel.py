"""An rKernel of your own in C, as a candidate beside the compiler's; measured times decide."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from onnx import parser

import rammer_mlir
from rammer_mlir.bindings import ir
from rammer_mlir.extend import Box, OfferedOperator, external_rkernel, register_rkernels

SOURCE = """
#include <stdint.h>
int32_t gelu_row(int64_t row, const float *x, float *y) {  /* one rTask: 512 elements */
  x += 512 * row, y += 512 * row;
  for (int i = 0; i < 512; i++) {
    float t = 0.7978845608f * (x[i] + 0.044715f * x[i] * x[i] * x[i]);
    t = t < -4.97f ? -4.97f : t;
    t = t > 4.97f ? 4.97f : t;
    float s = t * t;  /* tanh as a quotient of polynomials */
    float p = t * (135135 + s * (17325 + s * (378 + s)));
    y[i] = 0.5f * x[i] * (1 + p / (135135 + s * (62370 + s * (3150 + s * 28))));
  }
  return 0;  /* anything else is an error of run() */
}"""


class Gelu:
    name: ClassVar[str] = "gelu"

    def offer(self, operator: OfferedOperator) -> Sequence[ir.Module]:
        if "math.tanh" not in str(operator.function) or len(operator.inputs) != 1:
            return []
        row: Box = [("d0", 1), (0, 512)]
        return [
            external_rkernel(
                operator, SOURCE, "gelu_row", num_rtasks=64,
                reads={0: row}, writes={0: row}, operations=10240, num_bytes=4096,
            )
        ]  # fmt: skip


register_rkernels(Gelu())
model = parser.parse_model("""<ir_version: 10, opset_import: ["": 20]>
  g (float[64,512] x) => (float[64,512] y) { y = Gelu <approximate = "tanh"> (x) }""")
x = np.random.default_rng(0).standard_normal((64, 512)).astype(np.float32)
plain = rammer_mlir.compile(model).run({"x": x})["y"]
executable = rammer_mlir.compile(model, rkernels="gelu", costs="measured")
found = executable.run({"x": x})["y"]
print(executable.image.modules, f"difference {abs(found - plain).max():.1e}")
