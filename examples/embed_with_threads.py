"""Embed the passes in the pipeline of a host whose context has multithreading enabled.

Usage: python examples/embed_with_threads.py
"""

from rammer_mlir import dialects
from rammer_mlir.bindings import ir, passmanager
from rammer_mlir.lowering.registry import LOWERING_PASSES
from rammer_mlir.passes import PASSES, add_pipeline, run_without_threads

TWO_BRANCHES = """
func.func @main(%x: tensor<64x64xf32> {rtask.name = "x"})
    -> (tensor<64x64xf32> {rtask.name = "y"}) {
  %empty = tensor.empty() : tensor<64x64xf32>
  %exp = linalg.exp ins(%x : tensor<64x64xf32>) outs(%empty : tensor<64x64xf32>)
      -> tensor<64x64xf32>
  %zero = arith.constant 0.0 : f32
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<64x64xf32>) -> tensor<64x64xf32>
  %square = linalg.matmul ins(%x, %x : tensor<64x64xf32>, tensor<64x64xf32>)
      outs(%init : tensor<64x64xf32>) -> tensor<64x64xf32>
  %sum = linalg.add ins(%exp, %square : tensor<64x64xf32>, tensor<64x64xf32>)
      outs(%empty : tensor<64x64xf32>) -> tensor<64x64xf32>
  return %sum : tensor<64x64xf32>
}
"""

OURS = (
    "rtask-form-operators,rtask-tile,rtask-bufferize,rtask-schedule{num-veus=2},"
    "rtask-minimize-barriers,rtask-plan-memory,rtask-verify-schedule,rtask-lower-to-cpu"
)

context = ir.Context()
dialects.register(context)
context.enable_multithreading(True)  # the module has no operation of rtask yet

with context, ir.Location.unknown():
    module = ir.Module.parse(TWO_BRANCHES)
    mine = passmanager.PassManager.parse("builtin.module(func.func(linalg-generalize-named-ops))")
    mine.run(module.operation)  # multithreaded

    manager = passmanager.PassManager("builtin.module")
    manager.add("func.func(canonicalize,cse)")
    add_pipeline(manager, OURS, passes=(*PASSES, *LOWERING_PASSES))
    run_without_threads(manager, module)

    after = passmanager.PassManager.parse("builtin.module(llvm.func(canonicalize,cse))")
    after.run(module.operation)  # multithreaded again: no operation of rtask is left
    print(module.operation.attributes["rtask.launch"])
