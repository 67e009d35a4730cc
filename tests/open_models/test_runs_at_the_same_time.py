"""Tests that several threads may run an open or hosted model at the same time.

A hosted model is one that the host runs in parts.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import onnx
import onnx.parser

import rammer_mlir
from rammer_mlir.benchmarks.contenders.onnx_runtime import OnnxRuntime

OPEN = """
<ir_version: 10, opset_import: ["": 21]>
gated (float[N, 24] x, float[24, 40] v) => (float[N, 40] y)
  { a = MatMul(x, v)  b = Sigmoid(a)  y = Mul(a, b) }
"""

LOOP = """
<ir_version: 10, opset_import: ["": 21]>
repeated (float[4, 16] x, int64 n, float[16, 16] v) => (float[4, 16] y) {
  true = Constant<value = bool {1}>()
  y = Loop(n, true, x) <body = step (int64 i, bool go, float[4, 16] s)
                               => (bool more, float[4, 16] t) {
    more = Identity(go)
    a = MatMul(s, v)
    t = Tanh(a)
  }>
}
"""

NONZERO = """
<ir_version: 10, opset_import: ["": 21]>
chosen (float[30] x) => (float[M] y)
  { i = NonZero(x)  c = Gather<axis = 0>(x, i)  d = Flatten<axis = 0>(c)
    m = Constant<value = int64[1] {-1}>()  e = Reshape(d, m)  y = Exp(e) }
"""


def check(text: str, feeds: list[dict[str, np.ndarray[Any, Any]]]) -> None:
    """Run the model ``text`` on each of ``feeds``, and compare the results with ONNX Runtime's.

    Five threads run the model concurrently.
    """
    model = onnx.parser.parse_model(text)
    reference = OnnxRuntime(model)
    expected: list[Any] = [reference.run(each)["y"] for each in feeds]
    with rammer_mlir.compile(model, num_veus=2) as compiled, ThreadPoolExecutor(5) as pool:
        for _ in range(10):
            found = pool.map(compiled.run, feeds)
            for outputs, right in zip(found, expected, strict=True):
                np.testing.assert_allclose(outputs["y"], right, rtol=1e-4, atol=1e-5)


def test_an_open_model_runs_on_several_sizes_at_the_same_time() -> None:
    generator = np.random.default_rng(1)
    v = generator.standard_normal((24, 40)).astype(np.float32)
    sizes = [1, 7, 3, 7, 2, 1, 9, 3, 7, 2]
    check(OPEN, [{"x": generator.standard_normal((n, 24)).astype("f"), "v": v} for n in sizes])


def test_loops_run_at_the_same_time() -> None:
    """Concurrent runs of a loop repeat the body as often as each run's input says.

    Each run has its own states.
    """
    generator = np.random.default_rng(2)
    v = 0.2 * generator.standard_normal((16, 16)).astype(np.float32)
    check(
        LOOP,
        [
            {"x": generator.standard_normal((4, 16)).astype("f"), "n": np.array(n), "v": v}
            for n in (3, 1, 0, 20, 5, 2, 8, 1)
        ],
    )


def test_a_hosted_model_runs_on_several_values_at_the_same_time() -> None:
    generator = np.random.default_rng(3)
    values = generator.standard_normal((8, 30)).astype(np.float32)
    check(NONZERO, [{"x": x * (x > 0.2 * n)} for n, x in enumerate(values)])
