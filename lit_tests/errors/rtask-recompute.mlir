// RUN: rammer-opt %s --split-input-file --verify-diagnostics --rtask-recompute=memory=1000 -o /dev/null

func.func private @k(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'rtask.operator': expected rKernels, found @k on whole tensors: run rtask-tile first}}
  %0 = rtask.operator @k(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-error @+1 {{'func.func': expected static tensors, found memref<4xf32>: it has buffers already}}
func.func @main(%x: memref<4xf32>) {
  return
}
