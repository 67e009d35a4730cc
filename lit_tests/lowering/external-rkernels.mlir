// RUN: rammer-opt %s --rtask-bufferize | filecheck %s
// RUN: rammer-opt %s --rtask-bufferize '--rtask-schedule=policy=list num-veus=2' | filecheck %s --check-prefix=CHOSEN
// RUN: not rammer-opt %s --pass-pipeline='builtin.module(rtask-bufferize,rtask-schedule{policy=list num-veus=2},rtask-plan-memory,rtask-lower-to-gpu{target=nvvm:sm_90})' 2>&1 | filecheck %s --check-prefix=GPU

// An external rKernel stays a declaration. It takes dense buffers: where a result is computed in
// place in a part of each row of a concatenation, only the rKernel with a body is a candidate.
// CHECK-DAG: "rtask.module"{{.*}}code = "int32_t twice
// CHECK-DAG: func.func private @twice_b(index, memref<4x8xf32>, memref<4x8xf32>)
// CHECK-DAG: rtask.kernel @twice_b rtasks(4) operations(8) bytes(64) attributes {external = {module = @code, symbol = "twice"}}
// CHECK-DAG: func.func private @own_b(%
// CHECK: func.func @main
// CHECK: rtask.operator 0 [@own_b, @twice_b](%
// CHECK: rtask.operator 1 @own_b1(%
// Its four rTasks run on both vEUs.
// CHOSEN: rtask.program
// CHOSEN: veu 0
// CHOSEN: run @twice_b[0] of 0
// CHOSEN: veu 1
// CHOSEN: run @twice_b[1] of 0
// GPU: error: external rKernel '@twice_b' ('twice'): expected code of the form llvm, ptx, cuda for nvvm:sm_90, found 'c'; offer such code, or leave it out
"rtask.module"() {sym_name = "code", form = "c", code = "int32_t twice(int64_t rtask, const float *x, float *y);"} : () -> ()
rtask.kernel @twice rtasks(4) operations(8) bytes(64) attributes {external = {module = @code, symbol = "twice"}} {
  reads 0[d0 +: 1, 0 +: 8]
  writes 1[d0 +: 1, 0 +: 8]
}
func.func private @twice(index, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
rtask.kernel @own rtasks(1) operations(80000000) bytes(256) {
  reads 0[0 +: 4, 0 +: 8]
  writes 1[0 +: 4, 0 +: 8]
}
func.func private @own(%id: index, %a: tensor<4x8xf32>, %out: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%a : tensor<4x8xf32>) outs(%out : tensor<4x8xf32>) {
  ^bb0(%x: f32, %y: f32):
    %sum = arith.addf %x, %x : f32
    linalg.yield %sum : f32
  } -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
func.func @main(%x: tensor<4x8xf32> {rtask.name = "x"}) -> (tensor<4x16xf32> {rtask.name = "y"}) {
  %0 = rtask.operator [@own, @twice](%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = rtask.operator [@own, @twice](%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = rtask.operator @own(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = tensor.concat dim(1) %1, %2 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
  return %3 : tensor<4x16xf32>
}
