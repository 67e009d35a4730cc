"""Tests that `rtask-lower-to-cpu` lowers IR to an object whose function can be called from C."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rammer_mlir.bindings import ir
from rammer_mlir.cli import opt
from rammer_mlir.lowering.cpu.rtask_lower_to_cpu import LAUNCH
from rammer_mlir.lowering.llvm.link import link_shared
from rammer_mlir.support.aligned import aligned_bytes

SOURCE = """
func.func @main(%x: tensor<70x40xf32> {rtask.name = "x"}, %w: tensor<40x64xf32> {rtask.name = "w"},
                %v: tensor<64x64xf32> {rtask.name = "v"}) 
    -> (tensor<70x64xf32> {rtask.name = "y"}) {
  %scale = arith.constant dense<0.125> : tensor<70x64xf32>
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<70x64xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<70x64xf32>) -> tensor<70x64xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<70x40xf32>, tensor<40x64xf32>)
                     outs(%fill : tensor<70x64xf32>) -> tensor<70x64xf32>
  %1 = linalg.mul ins(%0, %scale : tensor<70x64xf32>, tensor<70x64xf32>)
                  outs(%empty : tensor<70x64xf32>) -> tensor<70x64xf32>
  %2 = linalg.exp ins(%1 : tensor<70x64xf32>) outs(%empty : tensor<70x64xf32>) -> tensor<70x64xf32>
  %3 = linalg.matmul ins(%2, %v : tensor<70x64xf32>, tensor<64x64xf32>)
                     outs(%fill : tensor<70x64xf32>) -> tensor<70x64xf32>
  return %3 : tensor<70x64xf32>
}
"""
"""Two products, the second of which reads an elementwise function of the first."""

PIPELINE = (
    "linalg-generalize-named-ops", "canonicalize", "cse", "rtask-form-operators",
    "rtask-tile{work=40000 enough=4}", "rtask-bufferize", "rtask-schedule{num-veus=3}",
    "rtask-minimize-barriers", "rtask-plan-memory", "rtask-verify-schedule",
)  # fmt: skip


def built(folder: Path, *passes: str) -> tuple[Any, dict[str, Any]]:
    """Compile ``SOURCE`` by the passes of ``PIPELINE`` and then by ``passes``; load the library.

    Return the compiled C function, and the attributes by name that describe its launch.
    """
    source, lowered, compiled = (folder / name for name in ("in.mlir", "cpu.mlir", "main.o"))
    source.write_text(SOURCE)
    text = f"builtin.module({','.join((*PIPELINE, *passes))})"
    assert opt.main([str(source), "-p", text, "-o", str(lowered)]) == 0
    assert opt.main([str(lowered), "--emit-object", "-o", str(compiled)]) == 0
    library = folder / "main.so"
    library.write_bytes(link_shared(compiled.read_bytes()))
    context = ir.Context()
    context.allow_unregistered_dialects = True
    module = ir.Module.parse(lowered.read_text(), context)
    launch = {each.name: each.attr for each in ir.DictAttr(module.operation.attributes[LAUNCH])}
    symbol = ir.StringAttr(launch["symbol"]).value
    return ctypes.CDLL(str(library))[symbol], launch


@pytest.mark.parametrize(
    "lower", ["rtask-lower-to-cpu", "rtask-lower-to-cpu{straight-line-limit=0}"]
)
def test_an_object_computes_what_numpy_does(lower: str, tmp_path: Path) -> None:
    function, launch = built(tmp_path, lower)
    names = [ir.StringAttr(name).value for name in launch["arguments"]]
    sizes = dict(zip(names, launch["bytes"], strict=True))
    rng = np.random.default_rng(7)
    x = rng.standard_normal((70, 40), np.float32)
    w = rng.standard_normal((40, 64), np.float32)
    v = rng.standard_normal((64, 64), np.float32)
    buffers = {name: aligned_bytes(sizes[name]) for name in names}
    for name, array in {"x": x, "w": w, "v": v}.items():
        buffers[name][:] = array.view(np.uint8).reshape(-1)
    arguments = (ctypes.c_void_p * len(names))(*(buffers[name].ctypes.data for name in names))
    counters = aligned_bytes(ir.IntegerAttr(launch["counter_bytes"]).value)
    counters[:] = 0
    num_veus = ir.IntegerAttr(launch["veus"]).value
    assert num_veus == 3

    def execute(veu: int, run: int) -> None:
        address = ctypes.c_void_p(counters.ctypes.data)
        function(ctypes.c_int64(veu), ctypes.c_int64(run), address, arguments)

    product = x.astype(np.float64) @ w
    expected = np.exp(0.125 * product) @ v
    for run in (1, 2, 3):
        buffers["y"][:] = 0
        with ThreadPoolExecutor(num_veus) as pool:
            list(pool.map(execute, range(num_veus), [run] * num_veus))
        found = buffers["y"].view(np.float32).reshape(70, 64)
        np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-4)
