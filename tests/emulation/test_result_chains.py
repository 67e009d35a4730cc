"""Tests of chains of initial value, reduction and epilogues, whose intermediates stay in registers.

Random chains are compared with NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from mapped_kernels import compile_mapped
from numpy.typing import NDArray

from rammer_mlir.bindings import ir
from rammer_mlir.emulation.device.emulator import Grid, launch
from rammer_mlir.lowering.gpu.contractions.matrix_unit import MMA, NARROW
from rammer_mlir.lowering.gpu.kernels import run_passes
from rammer_mlir.lowering.gpu.result_chains import mark_chains, marked_chains

THREADS = 128
DTYPES: dict[str, Any] = {"f32": np.float32, "f16": np.float16}

Array = NDArray[Any]


@dataclass(frozen=True)
class Chain:
    """A test case: an rKernel that computes ``f(x @ w + begin)``.

    It initializes the result, adds a matrix product, and applies element-wise operations.

    Attributes:
        rows, inner, columns: sizes of the product.
        element: type of the factors and the results; sums are f32.
        begins: ``begin``: "zero", "bias" (a value per column), "tensor", or "old" (the old output).
        ends: the operations of ``f``, by their names in ``ENDS``, in order.
        alignment: bytes that divide all addresses.
        shape: dimensions of the results: "(m, n)" or, transposed, "(n, m)".
    """

    rows: int
    inner: int
    columns: int
    element: str = "f32"
    begins: str = "zero"
    ends: tuple[str, ...] = ("relu",)
    alignment: int = 16
    shape: str = "(m, n)"

    def memref(self, *sizes: int, element: str = "f32") -> str:
        """Return the text of a memref type of these sizes."""
        return f"memref<{'x'.join(map(str, sizes))}x{element}>"

    @property
    def target(self) -> str:
        """Return the type of the output."""
        sizes = (self.rows, self.columns)
        return self.memref(*(sizes if self.shape == "(m, n)" else sizes[::-1]),
                           element=self.element)  # fmt: skip

    @property
    def types(self) -> list[str]:
        """Return the types of the buffers: factors, bias, tensor, output."""
        return [
            self.memref(self.rows, self.inner, element=self.element),
            self.memref(self.inner, self.columns, element=self.element),
            self.memref(self.columns),
            self.memref(self.rows, self.columns),
            self.target,
        ]

    @property
    def source(self) -> str:
        """Return MLIR text of the rKernel."""
        x, w, bias, tensor, target = self.types
        sums = self.memref(self.rows, self.columns)
        in_place = self.element == "f32" and self.shape == "(m, n)"
        place = "%y" if in_place else "%sums"
        aligned = f"{{rtask.alignment = {self.alignment} : i64}}"
        widen = [f"%{v}w = arith.extf %{v} : f16 to f32" for v in "ab"]
        lines = [
            f"func.func @kernel(%id: index, %x: {x} {aligned}, %w: {w} {aligned}, "
            f"%bias: {bias} {aligned}, %tensor: {tensor} {aligned}, %y: {target} {aligned}) {{",
            "%zero = arith.constant 0.0 : f32",
            "" if in_place else f"%sums = memref.alloc() : {sums}",
            {
                "zero": f"linalg.fill ins(%zero : f32) outs({place} : {sums})",
                "bias": f"linalg.broadcast ins(%bias : {bias}) outs({place} : {sums}) "
                "dimensions = [0]",
                "tensor": f"linalg.copy ins(%tensor : {tensor}) outs({place} : {sums})",
                "old": "",
            }[self.begins],
            "linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, "
            "affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], "
            'iterator_types = ["parallel", "parallel", "reduction"]} '
            f"ins(%x, %w : {x}, {w}) outs({place} : {sums}) {{",
            f"^bb0(%a: {self.element}, %b: {self.element}, %c: f32):",
            *(widen if self.element == "f16" else []),
            f"%p = arith.mulf {'%aw, %bw' if self.element == 'f16' else '%a, %b'} : f32",
            "%s = arith.addf %c, %p : f32",
            "linalg.yield %s : f32",
            "}",
        ]
        result, kind = place, sums
        for number, end in enumerate(self.ends):
            last = number == len(self.ends) - 1
            goal, wanted = ("%y", target) if last else (f"%t{number}", sums)
            if not last and not in_place:
                lines.append(f"{goal} = memref.alloc() : {sums}")
            if not last and in_place:
                goal = "%y"
            map_ = self.shape if last else "(m, n)"
            cast = last and self.element == "f16"
            kept = [
                "%h = arith.truncf %r : f32 to f16" if cast else "",
                f"linalg.yield {'%h : f16' if cast else '%r : f32'}",
                "}",
            ]
            lines += [
                f"linalg.generic {{indexing_maps = [affine_map<(m, n) -> (m, n)>, "
                f"affine_map<(m, n) -> (n)>, affine_map<(m, n) -> (m, n)>, "
                f"affine_map<(m, n) -> {map_}>], "
                'iterator_types = ["parallel", "parallel"]} '
                f"ins({result}, %bias, %tensor : {kind}, {bias}, {tensor}) "
                f"outs({goal} : {wanted}) {{",
                f"^bb0(%v: f32, %q: f32, %t: f32, %o: {self.element if last else 'f32'}):",
                ENDS[end][0],
                *kept,
            ]
            result, kind = goal, wanted
        return "\n".join([*lines, "return", "}"])

    def expected(self, x: Array, w: Array, bias: Array, tensor: Array, y: Array) -> Array:
        """Return the output in float64; ``y`` is the output buffer's content before the run."""
        begin = {"zero": 0.0, "bias": bias, "tensor": tensor, "old": y}[self.begins]
        found = x.astype(np.float64) @ w.astype(np.float64) + begin
        for end in self.ends:
            found = ENDS[end][1](found, bias, tensor)
        return found if self.shape == "(m, n)" else found.T


def _with_column(v: Array, q: Array, t: Array) -> Array:
    return v + np.arange(v.shape[1])


ENDS: dict[str, tuple[str, Callable[[Array, Array, Array], Array]]] = {
    "relu": ("%r = arith.maximumf %v, %zero : f32", lambda v, q, t: np.maximum(v, 0)),
    "bias": ("%r = arith.addf %v, %q : f32", lambda v, q, t: v + q),
    "tensor": ("%r = arith.addf %v, %t : f32", lambda v, q, t: v + t),
    "both": (
        "%g = arith.mulf %q, %t : f32\n%r = arith.addf %g, %v : f32",
        lambda v, q, t: v + q * t,
    ),
    "index": (
        "%i = linalg.index 1 : index\n%j = arith.index_cast %i : index to i32\n"
        "%f = arith.sitofp %j : i32 to f32\n%r = arith.addf %v, %f : f32",
        _with_column,
    ),
}

CASES = [
    Chain(64, 64, 64),
    Chain(64, 64, 64, begins="bias", ends=("both",)),
    Chain(64, 64, 64, begins="old", ends=("tensor", "relu")),
    Chain(60, 33, 52, begins="tensor", ends=("bias", "index")),  # edges
    Chain(37, 19, 23, begins="bias", ends=("tensor",), alignment=4),
    Chain(5, 256, 6, ends=("both", "relu")),  # groups of threads
    Chain(16, 3, 16, begins="tensor", ends=("relu",)),  # nothing is staged
    Chain(2, 40, 3, begins="bias", ends=("bias",)),  # lanes share results
    Chain(1, 256, 32, begins="bias", ends=("relu", "tensor")),  # columns
    Chain(1, 512, 512, ends=("both",)),  # columns in turns
    Chain(64, 64, 64, "f16"),  # matrix instructions
    Chain(64, 64, 64, "f16", begins="bias", ends=("tensor", "both", "relu")),
    Chain(24, 48, 40, "f16", begins="tensor", ends=("index",)),
    Chain(1, 256, 64, "f16", ends=("bias", "relu")),
    Chain(8, 64, 12, "f16", ends=("bias",), shape="(n, m)"),
    Chain(64, 32, 12, begins="bias", ends=("tensor", "relu"), shape="(n, m)"),
    Chain(64, 32, 48, begins="bias", ends=("relu",), shape="(n, m)"),  # transposed by the block
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_chains(case: Chain) -> None:
    rng = np.random.default_rng(case.rows)
    x, w, bias, tensor, y = (
        rng.standard_normal(tuple(map(int, kind[7:-1].split("x")[:-1]))).astype(
            DTYPES[kind[:-1].rpartition("x")[2]]
        )
        for kind in case.types
    )
    expected = case.expected(x, w, bias, tensor, y)
    kernel, mapped = compile_mapped(
        case.source, case.types, THREADS, lambda kernel: None,
        matrix_unit=MMA.only(NARROW) if case.element == "f16" else None,
    )  # fmt: skip
    scratch = np.zeros(mapped.scratch_bytes, np.uint8)
    launch(kernel, [x, w, bias, tensor, y, scratch], Grid(1, THREADS, 32))
    tolerance = 1e-4 if case.element == "f32" else 1e-2
    np.testing.assert_allclose(y.astype(np.float64), expected, rtol=tolerance, atol=10 * tolerance)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_all_of_a_chain_is_in_registers(case: Chain) -> None:
    """One chain has all operations, except an epilogue that transposes the result."""
    with ir.Context(), ir.Location.unknown():
        module: Any = ir.Module.parse(case.source)
        run_passes(module, "linalg-generalize-named-ops")
        kernel = module.body.operations[0].operation
        mark_chains(kernel)
        block = kernel.regions[0].blocks[0]
        chains = list(marked_chains([op.operation for op in block.operations]))
    length = 1 + (case.begins != "old") + len(case.ends)
    is_transposed = case.shape == "(n, m)" and case.rows >= 16 and case.columns >= 16
    assert [len(chain) for chain in chains] == ([length - 1, 1] if is_transposed else [length])


@pytest.mark.parametrize(("rows", "limit"), [(5, 3), (3, 8), (33, 24)])
def test_sizes_that_are_known_at_run_time(rows: int, limit: int) -> None:
    """A temporary whose size is known only at run time is in registers; loops end at that size."""
    kind = f"memref<{rows}x32xf16>"
    part = "memref<?x8xf16, strided<[8, 1]>>"
    source = f"""
func.func @kernel(%id: index, %x: {kind}, %w: memref<32x8xf16>, %y: memref<{rows}x8xf16>) {{
  %zero = arith.constant 0.0 : f32
  %count = affine.min affine_map<()[s0] -> (s0 * -{limit} + {rows}, {limit})>()[%id]
  %sums = memref.alloc(%count) : memref<?x8xf32>
  %part = memref.subview %x[0, 0] [%count, 32] [1, 1] : {kind} to
      memref<?x32xf16, strided<[32, 1]>>
  linalg.fill ins(%zero : f32) outs(%sums : memref<?x8xf32>)
  linalg.matmul ins(%part, %w : memref<?x32xf16, strided<[32, 1]>>, memref<32x8xf16>)
      outs(%sums : memref<?x8xf32>)
  %target = memref.subview %y[0, 0] [%count, 8] [1, 1] : memref<{rows}x8xf16> to {part}
  linalg.generic {{
      indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m, n)>],
      iterator_types = ["parallel", "parallel"]}}
      ins(%sums : memref<?x8xf32>) outs(%target : {part}) {{
  ^bb0(%sum: f32, %old: f16):
    %narrow = arith.truncf %sum : f32 to f16
    linalg.yield %narrow : f16
  }}
  return
}}"""
    rng = np.random.default_rng(rows)
    x, w, y = (rng.standard_normal(s).astype(np.float16) for s in ((rows, 32), (32, 8), (rows, 8)))
    expected = y.astype(np.float64)
    done = min(rows, limit)
    expected[:done] = x[:done].astype(np.float64) @ w.astype(np.float64)
    kernel, mapped = compile_mapped(
        source, [kind, "memref<32x8xf16>", f"memref<{rows}x8xf16>"], THREADS, lambda kernel: None,
        matrix_unit=MMA.only(NARROW),
    )  # fmt: skip
    launch(kernel, [x, w, y, np.zeros(mapped.scratch_bytes, np.uint8)], Grid(1, THREADS, 32))
    np.testing.assert_allclose(y.astype(np.float64), expected, rtol=1e-2, atol=1e-2)
