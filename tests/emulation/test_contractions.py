"""Staged contractions of random shapes, executed with the emulator's checks, agree with float64."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from gpu_kernels import Array
from mapped_kernels import compile_mapped

import rammer_mlir
from rammer_mlir.emulation.device.emulator import Grid, launch
from rammer_mlir.errors import EmulationError
from rammer_mlir.lowering.gpu.contractions.matrix_unit import MFMA, MMA, NARROW, MatrixUnit
from rammer_mlir.lowering.ir_walk import walk

RNG = np.random.default_rng(23)
THREADS = 128


@dataclass(frozen=True)
class Case:
    """A test case: a contraction, one of linalg's named operations.

    Attributes:
        operation: name of the operation, such as ``linalg.matmul``.
        shapes: shapes of both operands and of the result.
        attributes: MLIR text of the operation's attributes.
        element: element type of the operands; the result has f32.
    """

    operation: str
    shapes: tuple[tuple[int, ...], ...]
    attributes: str = ""
    element: str = "f32"

    @property
    def types(self) -> list[str]:
        """Return the memref types of the operands and of the result, whose elements are f32."""
        elements = (self.element, self.element, "f32")
        return [
            f"memref<{'x'.join(map(str, shape))}x{element}>"
            for shape, element in zip(self.shapes, elements, strict=True)
        ]


def product(m: int, n: int, k: int) -> Case:
    """Return a matrix product."""
    return Case("linalg.matmul", ((m, k), (k, n), (m, n)))


def convolution(channels: int, inputs: int, size: int, window: int, stride: int) -> Case:
    """Return a convolution with a square kernel of ``window`` rows, whose result has ``size`` rows.

    ``channels`` is the number of output channels, ``inputs`` that of input channels.
    """
    image = stride * (size - 1) + window
    attributes = (
        f"{{dilations = dense<1> : vector<2xi64>, strides = dense<{stride}> : vector<2xi64>}}"
    )
    shapes = (
        (1, inputs, image, image),
        (channels, inputs, window, window),
        (1, channels, size, size),
    )
    return Case("linalg.conv_2d_nchw_fchw", shapes, attributes)


def reference(case: Case, a: Array, b: Array, c: Array) -> Array:
    """Return the expected output, ``c`` plus the contraction, computed in float64."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    if case.operation == "linalg.matmul":
        return c + a @ b
    window = b.shape[2]
    stride = (a.shape[2] - window) // max(c.shape[2] - 1, 1)
    views = np.lib.stride_tricks.sliding_window_view(a, (window, window), (2, 3))
    views = views[:, :, :: max(stride, 1), :: max(stride, 1)]
    return c + np.einsum("nihwyx,oiyx->nohw", views, b)


def module_of(case: Case, alignment: int) -> str:
    """Return a module with a contraction's rKernel; buffers are aligned to ``alignment`` bytes."""
    a, b, c = case.types
    aligned = f"{{rtask.alignment = {alignment} : i64}}"
    return f"""
func.func @kernel(%id: index, %a: {a} {aligned}, %b: {b} {aligned}, %c: {c} {aligned}) {{
  {case.operation} {case.attributes} ins(%a, %b : {a}, {b}) outs(%c : {c})
  return
}}"""


DTYPES = {"f32": np.dtype(np.float32), "f16": np.dtype(np.float16),
          "bf16": np.dtype(ml_dtypes.bfloat16)}  # fmt: skip


def compile_case(
    case: Case,
    *,
    asynchronous: bool,
    alignment: int,
    unit: MatrixUnit | None = None,
    damage: str = "",
) -> Any:
    """Map a contraction to a block's threads; return the emulator's kernel and its scratch bytes.

    Args:
        case: the contraction.
        asynchronous: whether operands are staged by asynchronous copies.
        alignment: the alignment of all buffers in bytes.
        unit: the matrix instructions to use, if any.
        damage: the name of operations that are erased from the mapped rKernel.
    """

    def inspect(kernel: Any) -> None:
        used = {operation.name for operation in walk(kernel)}
        assert ("nvgpu.mma.sync" in used) == (unit is not None and unit.name == "mma")
        assert any("mfma" in name for name in used) == (unit is not None and unit.name == "mfma")
        for operation in walk(kernel):
            if operation.name == damage:
                operation.erase()

    kernel, mapped = compile_mapped(
        module_of(case, alignment), case.types, THREADS, inspect,
        async_copies=asynchronous, matrix_unit=unit,
    )  # fmt: skip
    assert mapped.shared_bytes > 16, "expected a staged contraction"
    return kernel, mapped.scratch_bytes


def execute(case: Case, kernel: Any, scratch: int, lanes: int = 32) -> tuple[Array, Array]:
    """Run a compiled contraction on random numbers; return the found and the expected output."""
    narrow = DTYPES[case.element]
    a, b = (RNG.standard_normal(shape).astype(narrow) for shape in case.shapes[:2])
    c = RNG.standard_normal(case.shapes[2]).astype(np.float32)
    expected = reference(case, a, b, c)
    launch(kernel, [a, b, c, np.zeros(scratch, np.uint8)], Grid(1, THREADS, lanes))
    return c, expected


def random_case(number: int) -> Case:
    """Return a random product or convolution that is large enough to be staged."""
    rng = np.random.default_rng(number)
    if number % 2:
        m, n, k = (int(v) for v in rng.integers(4, 70, 3))
        return product(m, n, 16 * (k + 1024 // (m * n)))
    channels, inputs, size = (int(v) for v in rng.integers(4, 18, 3))
    window, stride = int(rng.integers(1, 5)), int(rng.integers(1, 3))
    inputs += 16384 // (channels * size * size * window * window)
    return convolution(channels, inputs, size, window, stride)


CASES = [
    product(64, 64, 64),  # every thread has a tile
    product(5, 7, 512),  # groups share chunks, results at edges
    product(130, 67, 64),  # several rounds
    product(16, 16, 61 * 2),  # chunks of an odd size
    convolution(16, 8, 7, 3, 1),
    convolution(32, 3, 6, 7, 2),
    convolution(9, 96, 5, 1, 1),
]


def name(case: Case) -> str:
    """Return a name of the case that consists of its shapes."""
    return "-".join("x".join(map(str, shape)) for shape in case.shapes)


@pytest.mark.parametrize("asynchronous", [False, True], ids=["registers", "asynchronous"])
@pytest.mark.parametrize("alignment", [4, 16])
@pytest.mark.parametrize("case", CASES, ids=name)
def test_contractions(case: Case, alignment: int, asynchronous: bool) -> None:
    found, expected = execute(
        case, *compile_case(case, asynchronous=asynchronous, alignment=alignment)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)


MATRICES = [
    product(64, 64, 64),  # two tiles along rows
    product(33, 9, 256),  # edges
    product(16, 16, 512),  # groups of warps
    product(130, 70, 32),  # several rounds
    convolution(16, 16, 7, 3, 1),  # windows that no row of eight elements is aligned in
    convolution(24, 32, 8, 1, 1),
    convolution(17, 16, 9, 2, 2),
]


@pytest.mark.parametrize("element", ["f16", "bf16"])
@pytest.mark.parametrize("alignment", [2, 16])
@pytest.mark.parametrize("case", MATRICES, ids=name)
def test_matrix_instructions(case: Case, alignment: int, element: str) -> None:
    narrow = replace(case, element=element)
    found, expected = execute(
        narrow,
        *compile_case(narrow, asynchronous=True, alignment=alignment, unit=MMA.only(NARROW)),
    )
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("element", ["f16", "bf16"])
@pytest.mark.parametrize("alignment", [2, 16])
@pytest.mark.parametrize("case", MATRICES, ids=name)
def test_matrix_instructions_of_waves(case: Case, alignment: int, element: str) -> None:
    narrow = replace(case, element=element)
    kernel, scratch = compile_case(narrow, asynchronous=False, alignment=alignment, unit=MFMA)
    found, expected = execute(narrow, kernel, scratch, lanes=64)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)


def to_tf32(array: Array) -> Array:
    """Round to 11 bits of precision, to nearest, ties away from zero."""
    fraction, exponent = np.frexp(array.astype(np.float64))
    return np.ldexp(np.trunc(fraction * 2048 + np.copysign(0.5, fraction)) / 2048, exponent)


@pytest.mark.parametrize("alignment", [4, 16])
@pytest.mark.parametrize("case", MATRICES, ids=name)
def test_tf32(case: Case, alignment: int) -> None:
    """With tf32, products of the rounded elements are exact, and their sums are rounded to f32."""
    kernel, scratch = compile_case(
        case, asynchronous=True, alignment=alignment, unit=MMA.only(["f32"])
    )
    a, b = (RNG.standard_normal(shape).astype(np.float32) for shape in case.shapes[:2])
    c = RNG.standard_normal(case.shapes[2]).astype(np.float32)
    expected, exact = reference(case, to_tf32(a), to_tf32(b), c), reference(case, a, b, c)
    size = reference(case, np.abs(a), np.abs(b), np.abs(c))
    launch(kernel, [a, b, c, np.zeros(scratch, np.uint8)], Grid(1, THREADS, 32))
    np.testing.assert_allclose(c, expected, rtol=1e-4, atol=1e-4)
    assert (np.abs(c - exact) <= 2.0**-10 * size).all()
    assert np.abs(c - exact).max() > 2 * np.abs(c - expected).max()


@pytest.mark.parametrize("asynchronous", [False, True], ids=["registers", "asynchronous"])
@pytest.mark.parametrize("case", [product(20, 30, 50), convolution(9, 24, 5, 3, 1)], ids=name)
def test_half_precision_without_matrix_instructions(case: Case, asynchronous: bool) -> None:
    narrow = replace(case, element="f16")
    found, expected = execute(
        narrow, *compile_case(narrow, asynchronous=asynchronous, alignment=16)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(40))
def test_random_contractions(number: int) -> None:
    case = random_case(number)
    for asynchronous in (False, True):
        found, expected = execute(
            case, *compile_case(case, asynchronous=asynchronous, alignment=16)
        )
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("damage", "fault"),
    [("nvgpu.device_async_wait", "unwritten memory"), ("gpu.barrier", "unwritten memory")],
)
def test_missing_synchronisation_is_found(damage: str, fault: str) -> None:
    case = product(64, 64, 64)
    kernel, scratch = compile_case(case, asynchronous=True, alignment=16, damage=damage)
    with pytest.raises(EmulationError, match=fault):
        execute(case, kernel, scratch)


STRIDED = {
    "every second": "g (float[32,128] x) => (float[32,48] y) { s = Slice(x, from, to, axis, step)\n"
    " y = MatMul(s, w) }",
    "one of the last axis": "g (float[32,64,3] x) => (float[32,48] y) {"
    " s = Gather<axis=2>(x, one)\n y = MatMul(s, w) }",
}


@pytest.mark.parametrize("name", STRIDED)
def test_operands_whose_elements_are_apart(name: str) -> None:
    """Products of strided operands, which asynchronous copies cannot read, are right."""
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 17]>\n{STRIDED[name]}')
    w = RNG.standard_normal((64, 48)).astype(np.float32)
    numbers = {"from": [0], "to": [128], "axis": [1], "step": [2]}
    for key, value in {**numbers, "one": 1, "w": w}.items():
        array = w if key == "w" else np.array(value, np.int64)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, key))
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    x = RNG.standard_normal(shape).astype(np.float32)
    executable = rammer_mlir.compile(
        model, target="nvvm:sm_90", num_veus=2, emulate=True, check=True
    )
    expected = (x[:, ::2] if x.ndim == 2 else x[:, :, 1]).astype(np.float64) @ w
    np.testing.assert_allclose(executable(x), expected, rtol=1e-4, atol=1e-4)
