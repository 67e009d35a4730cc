"""Turn the kernel launches of another MLIR flow into one persistent kernel.

Usage: python examples/launches_to_megakernel.py

The flow below is upstream MLIR's own: linalg to parallel loops to gpu, with your own context and
pass manager. It launches six kernels. They become a single persistent kernel whose blocks wait for
each other only for data dependencies. The emulator executes it here and checks for races; on a
machine with a GPU, omit ``emulate`` and ``check``.
"""

import numpy as np

from rammer_mlir import dialects
from rammer_mlir.bindings import ir, passmanager
from rammer_mlir.embedding import compile_launches

MLP = """
#rows = affine_map<(d0, d1) -> (d0)>
#columns = affine_map<(d0, d1) -> (d1)>
#all = affine_map<(d0, d1) -> (d0, d1)>
func.func @mlp(%x: memref<16x24xf32> {rtask.name = "x"}, %w: memref<24x32xf32> {rtask.name = "w"},
               %b: memref<32xf32> {rtask.name = "b"}, %y: memref<16x32xf32> {rtask.name = "y"}) {
  %zero = arith.constant 0.0 : f32
  %h = memref.alloc() : memref<16x32xf32>
  %s = memref.alloc() : memref<16xf32>
  linalg.fill ins(%zero : f32) outs(%h : memref<16x32xf32>)
  linalg.matmul ins(%x, %w : memref<16x24xf32>, memref<24x32xf32>) outs(%h : memref<16x32xf32>)
  linalg.generic {indexing_maps = [#columns, #all], iterator_types = ["parallel", "parallel"]}
      ins(%b : memref<32xf32>) outs(%h : memref<16x32xf32>) {
  ^bb0(%v: f32, %o: f32):
    %n = arith.addf %v, %o : f32
    %p = arith.maximumf %n, %zero : f32
    linalg.yield %p : f32
  }
  linalg.fill ins(%zero : f32) outs(%s : memref<16xf32>)
  linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%h : memref<16x32xf32>) outs(%s : memref<16xf32>) {
  ^bb0(%v: f32, %o: f32):
    %n = arith.addf %v, %o : f32
    linalg.yield %n : f32
  }
  linalg.generic {indexing_maps = [#all, #rows, #all], iterator_types = ["parallel", "parallel"]}
      ins(%h, %s : memref<16x32xf32>, memref<16xf32>) outs(%y : memref<16x32xf32>) {
  ^bb0(%v: f32, %t: f32, %o: f32):
    %n = arith.divf %v, %t : f32
    linalg.yield %n : f32
  }
  memref.dealloc %h : memref<16x32xf32>
  memref.dealloc %s : memref<16xf32>
  return
}
"""

TO_LAUNCHES = (
    "builtin.module(func.func(convert-linalg-to-parallel-loops,"
    "scf-parallel-loop-tiling{parallel-loop-tile-sizes=8,8 no-min-max-bounds=true},"
    "gpu-map-parallel-loops),convert-parallel-loops-to-gpu,gpu-kernel-outlining)"
)

with ir.Context() as context, ir.Location.unknown():
    module = ir.Module.parse(MLP)
    passmanager.PassManager.parse(TO_LAUNCHES).run(module.operation)
    print(f"launches before: {str(module).count('gpu.launch_func')}")

    dialects.register(context)
    executable = compile_launches(module, target="nvvm:sm_90", num_veus=4, emulate=True, check=True)

print(f"launches now: 1, of {executable.num_veus} blocks")

rng = np.random.default_rng(0)
x, w, b = (rng.standard_normal(shape, np.float32) for shape in ((16, 24), (24, 32), (32,)))
found = executable.run({"x": x, "w": w, "b": b, "y": np.zeros((16, 32), np.float32)})["y"]

hidden = np.maximum(x.astype(np.float64) @ w + b, 0)
expected = hidden / hidden.sum(axis=1, keepdims=True)
print(f"largest difference from NumPy in float64: {np.abs(found - expected).max():.2g}")
assert np.abs(found - expected).max() < 1e-5
