"""A code generator of your own: products, followed by bias and Relu, as functions in C.

It declares the operations that it supports, the compiler forms regions of them, and it writes the
code of each. The compiler computes all other operations, and those that it computes faster.
"""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from onnx import numpy_helper, parser

import rammer_mlir
from rammer_mlir.codegens import (
    CompositePattern,
    Device,
    Limits,
    Match,
    Reading,
    Region,
    RegionCode,
    RegionFacts,
    constant,
    op,
    register_codegen,
    wildcard,
)

SOURCE = """
#include <stdint.h>
int32_t {name}(int64_t row, {arguments}, float *y) {{
  const int64_t sums = {sums}, columns = {columns};
  float *out = y + row * columns;
  for (int64_t j = 0; j < columns; j++) out[j] = {first};
  for (int64_t k = 0; k < sums; k++)
    for (int64_t j = 0; j < columns; j++) out[j] += x[row * sums + k] * w[k * columns + j];
  for (int64_t j = 0; j < columns; j++) out[j] = {last};
  return 0;  /* anything else is an error of run() */
}}"""
"""C source of an rTask, which computes a row of the result."""


class Products:
    """Supports matrix products with weights, with a bias and Relu after them."""

    name: ClassVar[str] = "products"

    def patterns(self) -> Sequence[CompositePattern]:
        product = op("matmul", wildcard("x"), constant("w"))
        biased = product.optional(lambda p: op("add", p, constant("b")))
        whole = biased.optional(lambda p: op("relu", p))
        return [CompositePattern("products.layer", whole, self.fits)]

    def fits(self, match: Match) -> bool:  # a bias with an element for each column
        return "b" not in match or match["b"].rank == 1

    def supports(self, reading: Reading) -> bool:
        return False  # only composites

    def limits(self) -> Limits:
        return Limits(operations=1)

    def worth(self, facts: RegionFacts, device: Device) -> bool:
        return True

    def generate(self, region: Region) -> RegionCode | None:
        (operation,) = region.operations
        readings = {reading.kind: reading for reading in operation.readings}
        product, bias = readings["matmul"], readings.get("add")
        if product.attributes.get("transpose_a") or product.attributes.get("transpose_b"):
            return None  # the compiler computes it
        x, w = product.inputs
        if len(region.inputs) < (2 if bias is None else 3):
            return None  # splat weights are constants in the IR, not arguments
        (rows, sums), (_, columns) = x.shape, w.shape
        # A function's arguments are the region's inputs, by number; readings name values.
        names = {operation.values[x.value]: "x", operation.values[w.value]: "w"}
        names |= dict.fromkeys(set(range(len(region.inputs))) - names.keys(), "b")
        text = SOURCE.format(
            name=region.name,
            arguments=", ".join(f"const float *{names[n]}" for n in sorted(names)),
            sums=sums,
            columns=columns,
            first="b[j]" if bias else "0",
            last="out[j] > 0 ? out[j] : 0" if "relu" in readings else "out[j]",
        )
        row = {number: [("d0", 1), (0, sums)] for number, name in names.items() if name == "x"}
        return RegionCode(
            text, region.name, num_rtasks=rows, reads=row, writes={0: [("d0", 1), (0, columns)]}
        )


register_codegen(Products())


def main() -> None:
    model = parser.parse_model("""<ir_version: 10, opset_import: ["": 20]>
      g (float[8,64] x) => (float[8,16] y) {
        a = MatMul(x, w)  b = Add(a, c)  d = Relu(b)  e = MatMul(d, v)  y = Softmax(e) }""")
    rng = np.random.default_rng(0)
    for name, shape in {"w": (64, 32), "c": (32,), "v": (32, 16)}.items():
        values = rng.standard_normal(shape).astype(np.float32) / 4
        model.graph.initializer.append(numpy_helper.from_array(values, name))
    x = rng.standard_normal((8, 64)).astype(np.float32)
    host = rammer_mlir.compile(model).run({"x": x})["y"]
    executable = rammer_mlir.compile(model, offload="products", offload_choice="always")
    found = executable.run({"x": x})["y"]
    modules = [module.name for module in executable.image.modules]
    print(f"{len(modules)} regions in C: {modules}, difference {abs(found - host).max():.1e}")


if __name__ == "__main__":
    main()
