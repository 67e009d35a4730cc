"""A code generator with stateful functions, and an engine; both compute products with weights."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper, parser

from rammer_mlir.codegens import (
    CompositePattern,
    Device,
    EntryHost,
    Limits,
    OpenEntry,
    Reading,
    Region,
    RegionCode,
    RegionFacts,
)
from rammer_mlir.runtime.executable import Executable

SOURCE = """
#include <stdint.h>
#include <stdlib.h>
struct rammer_host {{
  int32_t version; int32_t num_buffers; void *const *weights; void *(*find)(const char *);
}};
enum {{ ROWS = {rows}, SUMS = {sums}, COLUMNS = {columns} }};
int32_t {name}_open(void **state, const struct rammer_host *host) {{
  if (host->version != 1 || host->num_buffers != 3) return 2;
  if (host->weights[0] || host->weights[2]) return 3;
  {find}
  const float *w = host->weights[1];
  float *packed = malloc(sizeof(float) * SUMS * COLUMNS);
  if (!w || !packed) return 4;
  for (int k = 0; k < SUMS; k++)
    for (int j = 0; j < COLUMNS; j++) packed[j * SUMS + k] = w[k * COLUMNS + j];
  *state = packed;
  return {status};
}}
int32_t {name}_run(void *state, int64_t row, void *const *buffers) {{
  {before}
  {rows_of} {{
    const float *x = (const float *)buffers[0] + row * SUMS, *w = state;
    float *y = (float *)buffers[2] + row * COLUMNS;
    for (int j = 0; j < COLUMNS; j++) {{
      float sum = 0;
      for (int k = 0; k < SUMS; k++) sum += x[k] * w[j * SUMS + k];
      y[j] = sum;
    }}
  }}
  return 0;
}}
void {name}_close(void *state) {{ free(state); }}
"""


@dataclass
class PackedProducts:
    """A code generator of products with weights, which its function packs when it is opened.

    Attributes:
        form: form of the code: ``c``, or that of modules for an engine.
        holds_weights: whether a function belongs to the weights of one rOperator.
        code: arguments of ``RegionCode`` that replace those of ``generate``.
        filled: texts of placeholders in ``SOURCE`` that replace those of ``generate``, by name.
    """

    form: str = "c"
    holds_weights: bool = True
    code: Mapping[str, Any] = field(default_factory=dict[str, Any])
    filled: Mapping[str, str] = field(default_factory=dict[str, str])
    name: ClassVar[str] = "packed"

    def patterns(self) -> Sequence[CompositePattern]:
        return []

    def supports(self, reading: Reading) -> bool:
        return reading.kind == "matmul" and len(reading.inputs[0].shape) == 2

    def limits(self) -> Limits:
        return Limits(operations=1)

    def worth(self, facts: RegionFacts, device: Device) -> bool:
        return True

    def generate(self, region: Region) -> RegionCode:
        (rows, sums), (_, columns) = region_shapes(region)
        fields = {"name": region.name, "find": "", "status": "0", "before": "", "rows_of": ""}
        fields |= self.filled
        text = SOURCE.format(rows=rows, sums=sums, columns=columns, **fields)
        if self.form != "c":
            text = f"{rows} {sums} {columns}"
        given: dict[str, Any] = {
            "form": self.form,
            "has_state": True,
            "holds_weights": self.holds_weights,
            "num_rtasks": rows,
            "reads": {0: [("d0", 1), (0, sums)]},
            "writes": {0: [("d0", 1), (0, columns)]},
            **self.code,
        }
        return RegionCode(text, region.name, **given)


def region_shapes(region: Region) -> list[tuple[int, ...]]:
    """Return the shapes of both operands of the only product."""
    return [tuple(operand.shape) for operand in region.operations[0].readings[0].inputs]


Run = Callable[[int, int, int], int]


@dataclass
class Products:
    """An engine in Python that computes products; ``is_open`` has the names of its open entries."""

    name: ClassVar[str] = "products-engine"
    is_open: list[str] = field(default_factory=list[str])

    def open(self, host: EntryHost) -> OpenEntry:
        rows, sums, columns = map(int, host.module.content.split())
        weight = host.weights[1]
        assert weight is not None and host.weights[0] is None
        w = self._array(weight, (sums, columns)).copy()

        def run(state: int, row: int, buffers: int) -> int:
            x, _, y = (ctypes.c_void_p * 3).from_address(buffers)
            self._array(y, (rows, columns))[row] = self._array(x, (rows, sums))[row] @ w
            return 0

        kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
        callback = kind(run)
        self.is_open.append(host.symbol)
        address = ctypes.cast(callback, ctypes.c_void_p).value or 0
        return OpenEntry(address, 0, lambda: self.is_open.remove(host.symbol), callback)

    def _array(self, address: int | None, shape: tuple[int, int]) -> Any:
        kind = ctypes.c_float * (shape[0] * shape[1])
        return np.ctypeslib.as_array(kind.from_address(address or 0)).reshape(shape)


def two_products() -> onnx.ModelProto:
    """Return a model of two products of one shape, with different weights."""
    model = parser.parse_model("""<ir_version: 10, opset_import: ["": 20]>
      g (float[6,16] x) => (float[6,16] y) { a = MatMul(x, v)  b = Tanh(a)  y = MatMul(b, w) }""")
    rng = np.random.default_rng(3)
    for name in ("v", "w"):
        values = rng.standard_normal((16, 16)).astype(np.float32) / 4
        model.graph.initializer.append(numpy_helper.from_array(values, name))
    return model


def check(exe: Executable) -> None:
    """Compare the products of a program with ONNX Runtime's."""
    x = np.random.default_rng(1).standard_normal((6, 16)).astype(np.float32)
    model = two_products().SerializeToString()
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, {"x": x})
    np.testing.assert_allclose(exe.run({"x": x})["y"], np.asarray(wanted), rtol=1e-5, atol=1e-6)
