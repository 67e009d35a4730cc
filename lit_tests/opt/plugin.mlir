// RUN: rammer-opt %s --plugin %S/Inputs/extensions.py --mark-functions=times=1,2 | filecheck %s --check-prefix=MARK
// RUN: rammer-opt %s --plugin %S/Inputs/extensions.py --pass-pipeline='builtin.module(cse,mark-functions{mark=known})' | filecheck %s --check-prefix=PIPELINE
// RUN: rammer-opt --plugin %S/Inputs/extensions.py --list-passes | filecheck %s --check-prefix=LIST
// RUN: rammer-opt %s --plugin %S/Inputs/extensions.py --linalg-generalize-named-ops --rtask-tile=providers=rows --rtask-bufferize --rtask-apply-costs=costs=rows-first --rtask-schedule | filecheck %s --check-prefix=ROWS
// RUN: not rammer-opt %s --plugin %S/Inputs/extensions.py --rtask-tile=providers=wrong-rows 2>&1 | filecheck %s --check-prefix=WRONG
// RUN: not rammer-opt %s --rtask-tile=providers=rows 2>&1 | filecheck %s --check-prefix=UNKNOWN

// MARK: func.func private @double{{.*}}attributes {seen = "3"}
// PIPELINE: func.func @main{{.*}}attributes {known = "1"}
// LIST: Passes of rammer_plugin_extensions
// LIST-NEXT: --mark-functions{{ +}}Write an attribute on every function. [mark=seen times=1]

// The file's rKernel is a candidate beside the compiler's own, and its costs prefer it.
// ROWS: rtask.kernel @double_rows_0_b rtasks(4)
// ROWS: run @double_rows_0_b[0..1] of 0
// WRONG: error: {{.*}}'func.func': provider 'wrong-rows' failed with MLIRError: {{.*}}expected every element of argument 1 in one rTask's box{{.*}}element [2, 0] in 0
// UNKNOWN: error: unknown rKernel provider 'rows': none is registered or installed
func.func private @double(%x: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %empty = tensor.empty() : tensor<4x16xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4x16xf32>) outs(%empty : tensor<4x16xf32>) {
  ^bb0(%a: f32, %b: f32):
    %sum = arith.addf %a, %a : f32
    linalg.yield %sum : f32
  } -> tensor<4x16xf32>
  return %0 : tensor<4x16xf32>
}
func.func @main(%x: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %r = "rtask.operator"(%x) {kernels = [@double]} : (tensor<4x16xf32>) -> tensor<4x16xf32>
  return %r : tensor<4x16xf32>
}
