"""Measured times choose foreign code for one region, and rKernels of the compiler for another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import numpy_helper, parser

import rammer_mlir
from rammer_mlir.checker import verify
from rammer_mlir.codegens import (
    CompositePattern,
    Device,
    Limits,
    Reading,
    Region,
    RegionCode,
    RegionFacts,
    constant,
    op,
    register_codegen,
    wildcard,
)
from rammer_mlir.passes.regions.codegen import CODEGENS
from rammer_mlir.runtime.executable import Executable

CHAIN = """
#include <stdint.h>
#include <stdlib.h>
struct rammer_host {{
  int32_t version; int32_t num_buffers; void *const *weights; void *(*find)(const char *);
}};
enum {{ ROWS = {rows}, SUMS = {sums}, INNER = {inner}, COLUMNS = {columns} }};
int32_t {name}_open(void **state, const struct rammer_host *host) {{
  const float *a = host->weights[{a}], *b = host->weights[{b}];
  float *product = calloc(SUMS * COLUMNS, sizeof(float));
  if (!a || !b || !product) return 1;
  for (int k = 0; k < SUMS; k++)
    for (int i = 0; i < INNER; i++)
      for (int j = 0; j < COLUMNS; j++)
        product[k * COLUMNS + j] += a[k * INNER + i] * b[i * COLUMNS + j];
  *state = product;
  return 0;
}}
int32_t {name}_run(void *state, int64_t rtask, void *const *buffers) {{
  const float *x = buffers[{x}], *product = state;
  float *y = buffers[3];
  for (int r = 0; r < ROWS; r++)
    for (int j = 0; j < COLUMNS; j++) {{
      float sum = 0;
      for (int k = 0; k < SUMS; k++) sum += x[r * SUMS + k] * product[k * COLUMNS + j];
      y[r * COLUMNS + j] = sum;
    }}
  return 0;
}}
void {name}_close(void *state) {{ free(state); }}"""
"""Multiplies two weights when it is opened, so that a run multiplies by the small product alone."""

SINGLE = """
#include <stdint.h>
int32_t {name}(int64_t rtask, {arguments}, float *y) {{
  for (volatile int n = 0; n < 10000000; n++) {{}}
  for (int r = 0; r < {rows}; r++)
    for (int j = 0; j < {columns}; j++) {{
      float sum = 0;
      for (int k = 0; k < {sums}; k++) sum += x[r * {sums} + k] * w[k * {columns} + j];
      y[r * {columns} + j] = sum;
    }}
  return 0;
}}"""
"""Counts to ten million before it multiplies, which takes longer than the whole model."""


class Mixed:
    """A code generator whose code of two products in a row is fast, and of one product slow."""

    name: ClassVar[str] = "mixed"

    def __init__(self) -> None:
        self.kinds: dict[str, str] = {}

    def patterns(self) -> Sequence[CompositePattern]:
        first = op("matmul", wildcard("x"), constant("w"))
        both = op("matmul", op("matmul", wildcard("x"), constant("a")), constant("b"))
        return [CompositePattern("mixed.chain", both), CompositePattern("mixed.single", first)]

    def supports(self, reading: Reading) -> bool:
        return False

    def limits(self) -> Limits:
        return Limits(operations=1)

    def worth(self, facts: RegionFacts, device: Device) -> bool:
        return True

    def generate(self, region: Region) -> RegionCode:
        (operation,) = region.operations
        self.kinds[region.name] = operation.name
        first, *second = (each for each in operation.readings if each.kind == "matmul")
        (rows, sums), (_, columns) = (each.shape for each in first.inputs)
        x, w = (operation.values[each.value] for each in first.inputs)
        if not second:
            names = {x: "const float *x", w: "const float *w"}
            arguments = ", ".join(names[n] for n in sorted(names))
            text = SINGLE.format(
                name=region.name, arguments=arguments, rows=rows, sums=sums, columns=columns
            )
            return RegionCode(text, region.name)
        last = second[0].inputs[1]
        text = CHAIN.format(
            name=region.name, rows=rows, sums=sums, inner=columns, columns=last.shape[1],
            x=x, a=w, b=operation.values[last.value],
        )  # fmt: skip
        return RegionCode(text, region.name, has_state=True, holds_weights=True)


@pytest.fixture
def mixed() -> Iterator[Mixed]:
    """Return the code generator ``Mixed``, registered during the test."""
    made = Mixed()
    register_codegen(made)
    yield made
    CODEGENS.unregister(made.name)


WEIGHTS = {"w": (64, 64), "a": (64, 8192), "b": (8192, 64)}


def layers() -> onnx.ModelProto:
    """Return a product, a Tanh, and two products in a row with a wide layer between."""
    model = parser.parse_model("""<ir_version: 10, opset_import: ["": 20]>
      g (float[16,64] x) => (float[16,64] y) {
        p = MatMul(x, w)  t = Tanh(p)  h = MatMul(t, a)  y = MatMul(h, b) }""")
    rng = np.random.default_rng(4)
    for name, shape in WEIGHTS.items():
        values = rng.standard_normal(shape) / np.sqrt(shape[0])
        model.graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), name))
    return model


def exact(model: onnx.ModelProto, x: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the model's result, computed in float64."""
    w, a, b = (numpy_helper.to_array(each).astype(np.float64) for each in model.graph.initializer)
    return np.tanh(x.astype(np.float64) @ w) @ a @ b


def compiled(model: onnx.ModelProto, **options: Any) -> Executable:
    found = rammer_mlir.compile(
        model, offload="mixed", costs="measured", num_veus=2, cache=False, **options
    )
    assert isinstance(found, Executable)
    return found


@pytest.mark.parametrize("policy", ["wavefront", "list"])
def test_each_operator_by_whoever_is_faster(
    policy: str, mixed: Mixed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The measured choice keeps the fast code of two products, not the slow code of one."""
    monkeypatch.setenv("RAMMER_PROFILES", str(tmp_path / "profiles.sqlite"))
    model = layers()
    exe = compiled(model, policy=policy)
    (chain,) = [name for name, kind in mixed.kinds.items() if kind == "mixed.chain"]
    assert set(mixed.kinds.values()) == {"mixed.chain", "mixed.single"}
    assert [module.name for module in exe.image.modules] == [f"{chain}_code"]
    found = exe.stats["offload"]
    assert (found["found"], found["kept"]) == (2, 1)
    for unit in ("seconds", "measured"):
        rest = min(found[f"host_{unit}"], found[f"all_{unit}"])
        assert found[f"chosen_{unit}"] < 0.5 * rest, found
    path = tmp_path / "mixed.rammer"
    exe.save(path)
    verify(path)
    with exe, rammer_mlir.load(path) as loaded:
        for seed in range(3):
            x = np.random.default_rng(seed).standard_normal((16, 64)).astype(np.float32)
            y = exe.run({"x": x})["y"]
            np.testing.assert_allclose(y, exact(model, x), rtol=1e-4, atol=1e-4)
            np.testing.assert_array_equal(loaded.run({"x": x})["y"], y)


def test_code_of_both_operators_is_right(mixed: Mixed) -> None:
    """The code of both regions is right, so the measured choice rejects one for its time alone."""
    model = layers()
    found = rammer_mlir.compile(
        model, offload="mixed", offload_choice="always", num_veus=2, cache=False
    )
    x = np.random.default_rng(0).standard_normal((16, 64)).astype(np.float32)
    with found as exe:
        assert isinstance(exe, Executable) and len(exe.image.modules) == 2
        np.testing.assert_allclose(exe.run({"x": x})["y"], exact(model, x), rtol=1e-4, atol=1e-4)
