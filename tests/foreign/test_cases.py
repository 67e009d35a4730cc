"""Tests that functions typical of other projects' test suites give NumPy's results."""

# NumPy infers the types of expressions from those of arguments, which lambdas do not have.
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import rammer_mlir
from rammer_mlir.benchmarks.foreign.child import difference, random_inputs

Array = NDArray[Any]

CASES = Path(__file__).parent / "cases"

Expected = Callable[..., Any]


def strided_insert(a: Array, b: Array) -> Array:
    found = b.copy()
    found[1:9:2, 1:21:2] = a
    return found


def plain_insert(a: Array, b: Array) -> Array:
    found = b.copy()
    found[1:3, 2:5] = a
    return found


def dynamic_insert(a: Array, b: Array, i: Array) -> Array:
    found = b.copy()
    found[int(i), 2:5] = a
    return found


def inserted(t: Array, s: Array, i: Array) -> Array:
    found = t.copy()
    found[int(i)] = s
    return found


def repeated(step: Callable[[Array], Array], count: int, x: Array) -> Array:
    for _ in range(count):
        x = step(x)
    return x


def halved(a: Array, limit: Array) -> tuple[Array, int]:
    count = 0
    while abs(a[0]) > abs(limit):
        a, count = a * np.float32(0.5), count + 1
    return a, count


def branch_in_body(a: Array, b: Array) -> Array:
    rest = [0 if v == 0 else 9 // v for v in a[2:]]  # the inputs are not negative
    return np.array([*b, *rest], np.int32)


def softmax(a: Array) -> Array:
    e = np.exp(a - a.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def packed(a: Array) -> tuple[Array, Array]:
    padded = np.pad(a, ((0, 2), (0, 0)))
    return padded.reshape(4, 8, 4, 16).transpose(0, 2, 1, 3), a


def quantized(a: Array, b: Array) -> Array:
    return (a.astype(np.int32) - 3) @ (b.astype(np.int32) - 3)


def convolution(x: Array, w: Array, pad: int = 0) -> Array:
    """Return the convolution of ``x``, in the layout NHWC, with ``w``, in the layout HWCF."""
    x = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0))).astype(np.float64)
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[:2], (1, 2))
    return np.einsum("nhwcij,ijcf->nhwf", windows, w.astype(np.float64))


def max_pool(x: Array) -> Array:
    return x.reshape(1, 3, 2, 3, 2, 2).max((2, 4))


def wide(a: Array) -> Array:
    return a.astype(np.float64)


def sigmoid(a: Array) -> Array:
    return 1 / (1 + np.exp(-wide(a)))


def dynamic_slice(a: Array, i: Array, j: Array) -> Array:
    i, j = np.clip(int(i), 0, 3), np.clip(int(j), 0, 3)
    return a[i : i + 2, j : j + 3]


def scatter_add(a: Array, u: Array) -> Array:
    found = a.copy()
    np.add.at(found, [1, 4, 1], u)
    return found


def scatter_window(a: Array, u: Array) -> Array:
    """Return ``a`` with two windows overwritten; the first window's second element is outside."""
    found = a.copy()
    found[5, 1] = u[0, 0]
    found[0:2, 3] = u[1]
    return found


def scan(x: Array, w: Array, state: Array) -> Array:
    found: list[Array] = []
    for row in x:
        state = np.tanh(state @ w + row)
        found.append(state)
    return np.stack(found)


def row_sums(a: Array, i: Array, u: Array) -> Array:
    found = a.copy()
    np.add.at(found, i[:, 0], u)
    return found


def normalized(x: Array, scale: Array, offset: Array, mean: Array) -> Array:
    variance = np.array([0.5, 2, 3])
    scale, offset, mean, spread = (
        v[:, None] for v in (scale, offset, mean, np.sqrt(variance + 1e-3))
    )
    return (x - mean) / spread * scale + offset


def three_fry(state: Array) -> tuple[Array, Array]:
    """Return the next state and the random bits of Threefry-2x32 (Salmon et al., SC 2011).

    It has 20 rounds, and makes two 32-bit words of the halves of each 64-bit counter.
    """
    key, counter = (int(v) for v in state)
    mask = 0xFFFFFFFF
    keys = [key & mask, key >> 32]
    keys.append(0x1BD11BDA ^ keys[0] ^ keys[1])
    firsts: list[int] = []
    seconds: list[int] = []
    for number in range(counter, counter + 5):
        x, y = (number + keys[0]) & mask, ((number >> 32) + keys[1]) & mask
        for group in range(5):
            for shift in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
                x = (x + y) & mask
                y = ((y << shift | y >> (32 - shift)) & mask) ^ x
            x = (x + keys[(group + 1) % 3]) & mask
            y = (y + keys[(group + 2) % 3] + group + 1) & mask
        firsts.append(x)
        seconds.append(y)
    return np.array([key, counter + 5], np.uint64), np.array([firsts, seconds], np.uint32).T.ravel()


def dynamic_update_slice(a: Array, u: Array, i: Array) -> Array:
    found = a.copy()
    row, column = np.clip(int(i), 0, 3), np.clip(int(i), 0, 3)
    found[row : row + 2, column : column + 3] = u
    return found


EXPECTED: dict[str, dict[str, Expected]] = {
    "scalars": {
        "scalar_arguments": lambda t, s, n: t + s * np.float32(n),
        "scalar_results": lambda t: (max(t[1, 2], t[2, 1]), 2, t[1, 2] < t[2, 1]),
        "splat_and_from_elements": lambda a, b: (
            np.full((2, 3), a),
            np.array([[a, b], [a + b, a]]),
            a + b,
        ),
        "insert_element": inserted,
        "captured_scalar": lambda t, s: t * s,
        "generate": lambda s: np.arange(3)[:, None] * s + np.arange(4),
        "selected_by_scalar": lambda c, a, b: a if c else b,
        "rank_zero": lambda a, b: a / b,
        "constant_results": lambda: (np.array([3, 4]), 2.5),
        "static_dim": lambda _: np.array([5, 7]),
    },
    "control_flow": {
        "calls": lambda a: a * 0.25 - a,
        "short_loop": lambda a, w: repeated(lambda x: np.tanh(x @ wide(w)), 3, wide(a)),
        "long_loop": lambda a: a + 2.0,
        "counted_by_data": lambda a, n: a * (1 + int(n)),
        "loop_over_rows": np.exp,
        "sum_of_elements": lambda a, n: wide(a)[: int(n)].sum(),
        "while_loop": halved,
        "branch": lambda c, a: np.exp(a) if c else -a,
        "branch_in_body": branch_in_body,
        "blocks": lambda a, n: a * (1 + int(n)),
        "affine_loop": lambda a: a * 4,
        "shared_by_threads": lambda a, b: np.concatenate([b[:1], a[1:] ** 2]),
        "allocated": lambda a: (a * 2, a),
    },
    "slices": {
        "gather_rows": lambda t, ix: t[ix],
        "gather_elements": lambda t, ix: t[ix[..., 0], :, ix[..., 1]],
        "strided_insert": strided_insert,
        "plain_insert": plain_insert,
        "dynamic_extract": lambda a, i, j: a[int(i) : int(i) + 2, int(j) : int(j) + 5 : 2],
        "dynamic_insert": dynamic_insert,
        "strided_extract": lambda a: a[0:5:2, 1:8:3],
        "computed_padding": lambda a, v: np.pad(a, ((1, 2), (0, 1)), constant_values=v),
        "reshape": lambda a: a.reshape(3, 8),
        "concat": lambda a, b: np.concatenate([a, b], 1),
        "bitcast": lambda a: a.view(np.int32),
        "empty_tensors": lambda a, b: (a, b, np.ones(4)),
    },
    "linalg": {
        "softmax": softmax,
        "pack_and_unpack": packed,
        "packed_transposed": lambda a: a.reshape(4, 4, 2, 4).transpose(2, 0, 3, 1),
        "quantized_matmul": quantized,
        "accumulating_matmul": lambda a, b, c: wide(a) @ b + c,
        "transpose_broadcast_map": lambda a, b: a.T - b[:, None],
        "reduce_rows": lambda a, i: np.maximum(a.max(1), i),
        "two_results": lambda a: (wide(a).sum(1), (wide(a) ** 2).sum(1)),
        "convolution": convolution,
        "max_pool": max_pool,
        "bf16_matmul": lambda a, b: wide(a) @ wide(b),
        "integers": lambda a, b: (np.maximum(a * b, a), np.maximum(a * b, a) > b),
        "resource": lambda: np.sqrt([1, 2, 3, 4]),
        "computed_sequence_reduced": lambda: np.arange(16) + 131071,
        "same_result_twice": lambda a: (np.exp(a), np.exp(a), a),
    },
    "tosa": {
        "elementwise": lambda a, b: np.maximum(sigmoid(a + b), a),
        "clamped": lambda a: np.clip(a, -0.5, 0.5),
        "reductions": lambda a: (
            wide(a).sum(1, keepdims=True),
            a.max(0, keepdims=True),
            a.argmax(1),
        ),
        "shapes": lambda a: (a.transpose(2, 0, 1), a.reshape(6, 4), np.concatenate([a, a], 2)),
        "matmul": lambda a, b: wide(a) @ b,
        "gather": lambda a, i: a[:, i[0]],
        "convolution": lambda x, w, b: convolution(x, w.transpose(1, 2, 3, 0), 1) + b,
        "conditional": lambda c, a: np.exp(a) if c else a,
    },
    "stablehlo": {
        "batch_norm_inference": normalized,
        "chlo": lambda a: (np.arcsinh(a), -np.sort(-a)[:, :2], np.argsort(-a)[:, :2]),
        "hints": lambda a: (wide(a) @ a.T, a),
        "unsigned_arithmetic": lambda a, b: (
            (a + 199) // 3,
            a + np.float32(199),
            b < a + 199,
            a + np.uint32(199),
            a + 199,
            (a + 199).max(),
        ),
        "unsigned_scatter": row_sums,
        "unsigned_loop": lambda a, t: (t * (10 - a), 9),
        "truth_values": lambda a, b: (a | b, a & b, a | b, (a & b).any()),
        "random_bits": three_fry,
        "sort_with_numbers": lambda a: (
            -np.sort(-a, 1),
            np.argsort(-a, 1, kind="stable"),
        ),
        "sort_columns_by_size": lambda a: np.take_along_axis(
            a, np.argsort(np.abs(a) + np.float32(1), 0, kind="stable"), 0
        ),
        "elementwise": lambda a, b: np.where(a > b, np.tanh(a - b), b),
        "dot_general": lambda a, b: wide(a) @ b,
        "reduce": lambda a: wide(a).sum(1),
        "broadcast_transpose_slice": lambda a, b: (a + b[:, None]).T[::2],
        "dynamic_slice": dynamic_slice,
        "dynamic_update_slice": dynamic_update_slice,
        "scatter_add": scatter_add,
        "scatter_window_out_of_bounds": scatter_window,
        "scan": scan,
        "iota_and_convert": lambda: np.tile(np.arange(4), (3, 1)),
        "gather": lambda a, i: a[i[:, 0]],
        "dimension_size": lambda x: 4 * x,
        "convolution": lambda x, w: convolution(x, w, 1),
        "while": lambda a, n: repeated(np.cos, int(n), a),
        "conditional": lambda c, a: np.exp(a) if c else -a,
        "case": lambda c, a: [np.exp(a), -a, a][int(c)],
        "unsigned": lambda a: a.astype(np.int32),
    },
    "complex_numbers": {
        "arithmetic": lambda a, b: (a * b + np.complex64(1.5 - 0.25j)) / b - a,
        "functions": lambda a: (
            np.exp(a),
            np.log(a),
            np.sqrt(a),
            np.tanh(a),
            np.sin(a),
            np.abs(a),
        ),
        "parts": lambda re, im: (-(re + 1j * im), -im, (re == 0) & (im == 0)),
        "product": lambda a, b: a @ b,
        "power": lambda a, b: a**b,
        "sum": lambda a: a.sum(1),
        "scalars": lambda s, t, i: (
            s * t[i] + 2 + 1j,
            np.abs(s * t[i] + 2 + 1j),
            np.array([s * t[i] + 2 + 1j, s]),
        ),
        "shapes": lambda a, b: (
            np.pad(np.concatenate([a, b]), ((1, 1), (0, 0)), constant_values=0.5 + 2j).T
        ),
        "constants": lambda: (
            np.array([1 + 0.1j, complex(np.inf, -2), 3 + 4.5j]),
            np.array([[1 + 2j, 3 + 4j], [-1j, -5 + 6j]]),
        ),
        "long_loop": lambda a: (a + np.array([2 + 2j, 0, 0, 0]), a[1] - (2 + 2j)),
        "conditional": lambda c, a: np.exp(a) if c else a,
        "open": lambda a: a * a,
        "fourier": lambda a, r, h: (
            np.fft.fft(a),
            np.fft.ifft2(a),
            np.fft.rfft(r),
            np.fft.irfft2(h, (4, 10)),
        ),
    },
    "narrow_types": {
        "sums_and_products": lambda a, b, c: (a + b, (a + b) * b, c * c),
        "rounded_between": lambda a: a.astype(ml_dtypes.float8_e5m2),
        "product": lambda a, b: wide(a) @ wide(b),
        "constants": lambda a: (
            np.array([0.5, -1, 2, 6]).astype(a.dtype) + a,
            np.array([1, 4, 0.5]),
            np.array([7, -8, 3]),
            np.array([-7, 8000000]),
        ),
        "bits": lambda a: (a.view(np.int8), (a.view(np.int8) ^ 3).view(a.dtype)),
        "scalar": lambda s, t: (s + t[2], np.where(np.arange(6) == 2, s + t[2], t)),
        "long_loop": lambda a, d: np.array(
            [a[0], repeated(lambda x: (x + d).astype(a.dtype), 100, a[1]), *a[2:]]
        ),
        "largest": lambda a: wide(a).max(1),
        "wrapped_integers": lambda a, b: (
            a + b,
            ((a + b) * (a + b)).astype(np.int32),
        ),
        "unsigned_integers": lambda a, b: a * b + b,
        "dequantized": lambda a, s: a.astype(np.float32) * s[:, None],
        "odd_widths": lambda a, b: (
            (a * 4194304 + 2**23) % 2**24 - 2**23,
            (b.astype(np.int32) + 15 + 16) % 32 - 16,
        ),
    },
    "dynamic": {
        "scatter_of_open_number": row_sums,
        "dynamic_matmul": lambda a, b: wide(a) @ b,
        "dynamic_elementwise": lambda a, b: np.exp(a + b),
        "open_dimension_size": lambda x: x / len(x),
        "dynamic_stablehlo": lambda a: np.abs(wide(a)).sum(1),
        "joined_pieces": lambda a, b: np.concatenate([a, b]),
    },
}
"""The functions that compute the expected results from the inputs, by file and function name."""


@cache
def opened(file: str) -> str:
    return (CASES / f"{file}.mlir").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("file", "name"), [(file, name) for file, found in EXPECTED.items() for name in found]
)
def test_numbers_are_right(file: str, name: str) -> None:
    with rammer_mlir.compile(opened(file), entry=name, num_veus=2, cache=False) as exe:
        inputs = random_inputs(exe.signature, 5, seed=3)
        outputs = exe.run(inputs)
    expected = EXPECTED[file][name](*inputs.values())
    several = expected if isinstance(expected, tuple) else (expected,)
    assert difference(list(outputs.values()), [np.asarray(each) for each in several]) == ""


def test_every_case_has_an_expectation() -> None:
    for path in CASES.glob("*.mlir"):
        count = opened(path.stem).count("func.func @")
        assert count == len(EXPECTED[path.stem]), path
