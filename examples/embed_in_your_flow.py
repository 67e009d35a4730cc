"""Use the dialect and the passes inside a compiler of your own.

Usage: python examples/embed_in_your_flow.py

The module below could come from any producer of linalg on static tensors. It is lowered, stage by
stage, to a schedule for two vEUs, in your own context.
"""

from rammer_mlir import dialects
from rammer_mlir.bindings import ir
from rammer_mlir.compiler.options import check_options
from rammer_mlir.passes.manager import run_pipeline

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

with ir.Context() as context, ir.Location.unknown():
    # Registering is idempotent, so a library may do it, too.
    dialects.register(context)
    module = ir.Module.parse(TWO_BRANCHES)

    # The stages are named lists of passes, ours and upstream's mixed. Use them as they are, leave
    # some out, or put yours between them.
    options = check_options("cpu", policy="wavefront", num_veus=2)
    for stage in options.portable_stages():
        run_pipeline(module, stage.pipeline)
        module.operation.verify()
        print(f"// ---- {stage.name}: {len(str(module).splitlines())} lines")

    print(module)
