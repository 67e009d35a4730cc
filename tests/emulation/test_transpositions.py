"""Tests that element-wise operations that transpose operands are right, and coalesce accesses."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from mapped_kernels import compile_mapped

import rammer_mlir
from rammer_mlir.emulation.device.emulator import Grid, launch
from rammer_mlir.emulation.device.traces import warp_accesses
from rammer_mlir.lowering.ir_walk import walk

RNG = np.random.default_rng(29)
THREADS = 128


def rotation(a: int, b: int, c: int, element: str = "f32") -> str:
    """Return an rKernel of y[b, a, c] = 2 x[c, b, a] + z[b, c], which transposes x."""
    x, z, y = f"memref<{c}x{b}x{a}x{element}>", f"memref<{b}x{c}xf32>", f"memref<{b}x{a}x{c}xf32>"
    widen = (
        "arith.addf %u, %zero : f32" if element == "f32" else f"arith.extf %u : {element} to f32"
    )
    return f"""
#x = affine_map<(i, j, k) -> (k, i, j)>
#z = affine_map<(i, j, k) -> (i, k)>
#y = affine_map<(i, j, k) -> (i, j, k)>
func.func @kernel(%id: index, %x: {x}, %z: {z}, %y: {y}) {{
  %zero = arith.constant 0.0 : f32
  linalg.generic {{indexing_maps = [#x, #z, #y],
                   iterator_types = ["parallel", "parallel", "parallel"]}}
      ins(%x, %z : {x}, {z}) outs(%y : {y}) {{
  ^bb0(%u: {element}, %v: f32, %o: f32):
    %w = {widen}
    %d = arith.addf %w, %w : f32
    %s = arith.addf %d, %v : f32
    linalg.yield %s : f32
  }}
  return
}}"""


def types(a: int, b: int, c: int, element: str = "f32") -> list[str]:
    """Return the types of x, z and y of ``rotation``."""
    return [f"memref<{c}x{b}x{a}x{element}>", f"memref<{b}x{c}xf32>", f"memref<{b}x{a}x{c}xf32>"]


def is_staged(kernel: Any) -> bool:
    """Return whether an rKernel stores to shared memory."""
    return any(
        operation.name == "memref.store" and "workgroup" in str(operation.operands[1].type)
        for operation in walk(kernel)
    )


@pytest.mark.parametrize("element", ["f32", "f16"])
@pytest.mark.parametrize("sizes", [(64, 3, 32), (33, 2, 50), (16, 5, 17), (100, 1, 70)])
def test_turned_operands(sizes: tuple[int, int, int], element: str) -> None:
    """Transposed operands are staged in shared memory, also if sizes do not divide into squares."""
    a, b, c = sizes

    def inspect(kernel: Any) -> None:
        assert is_staged(kernel)

    kernel, mapped = compile_mapped(
        rotation(a, b, c, element), types(a, b, c, element), THREADS, inspect
    )
    x = RNG.standard_normal((c, b, a)).astype(np.float16 if element == "f16" else np.float32)
    z, y = RNG.standard_normal((b, c)).astype(np.float32), np.zeros((b, a, c), np.float32)
    scratch = np.zeros(mapped.scratch_bytes, np.uint8)
    launch(kernel, [x, z, y, scratch], Grid(1, THREADS, 32), unwritten=[2])
    expected = 2 * x.astype(np.float64).transpose(1, 2, 0) + z[:, None, :]
    np.testing.assert_allclose(y, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("sizes", [(4, 64, 64), (64, 64, 4)])
def test_few_neighbors_are_not_staged(sizes: tuple[int, int, int]) -> None:
    def inspect(kernel: Any) -> None:
        assert not is_staged(kernel)

    compile_mapped(rotation(*sizes), types(*sizes), THREADS, inspect)


@pytest.mark.parametrize("turned", [False, True])
def test_sectors(turned: bool) -> None:
    """A warp's accesses touch four sectors of 32 bytes for 128 bytes, transposed or not."""
    kind, access = "memref<64x96xf32>", "(j, i)" if turned else "(i, j)"
    source = "memref<96x64xf32>" if turned else kind
    module = f"""
func.func @kernel(%id: index, %x: {source}, %y: {kind}) {{
  linalg.generic {{indexing_maps = [affine_map<(i, j) -> {access}>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]}} ins(%x : {source}) outs(%y : {kind}) {{
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  }}
  return
}}"""
    kernel, mapped = compile_mapped(
        module, [source, kind], THREADS, lambda kernel: None, traced=True
    )
    x = RNG.standard_normal((96, 64) if turned else (64, 96)).astype(np.float32)
    y = np.zeros((64, 96), np.float32)
    trace = launch(kernel, [x, y, np.zeros(mapped.scratch_bytes, np.uint8)], Grid(1, THREADS))
    np.testing.assert_array_equal(y, x.T if turned else x)
    assert trace is not None
    for found in warp_accesses(trace, 32):
        assert found.sectors == found.needed == 4 * found.executions


@pytest.mark.parametrize("target", ["nvvm:sm_80", "rocdl:gfx90a"])
def test_a_model_that_turns_images(target: str) -> None:
    """Images are transposed to [N, W, C, H] and to [N, H, W, C] right, also at the edges.

    The sizes of the images leave partial tiles at the edges.
    """
    model = onnx.parser.parse_model("""
        <ir_version: 9, opset_import: ["" : 17]>
        turn (float[1,20,41,37] x, float[1,41,37,20] z)
            => (float[1,37,20,41] y, float[1,41,37,20] u) {
          t = Transpose <perm=[0, 3, 1, 2]> (x)
          y = Relu(t)
          s = Transpose <perm=[0, 2, 3, 1]> (x)
          u = Add(s, z)
        }""")
    executable = rammer_mlir.compile(model, target=target, num_veus=3, emulate=True, check=True)
    x = RNG.standard_normal((1, 20, 41, 37)).astype(np.float32)
    z = RNG.standard_normal((1, 41, 37, 20)).astype(np.float32)
    for _ in range(2):
        found = executable.run({"x": x, "z": z})
        np.testing.assert_array_equal(found["y"], np.maximum(x.transpose(0, 3, 1, 2), 0))
        np.testing.assert_array_equal(found["u"], x.transpose(0, 2, 3, 1) + z)
