// RUN: rammer-opt %s --split-input-file --verify-diagnostics --rtask-insert-copies -o /dev/null

// expected-error @+1 {{'func.func': expected static tensors, found memref<4xf32>: it has buffers already}}
func.func @main(%x: memref<4xf32>) {
  return
}

// -----

// expected-error @+1 {{'func.func': expected static tensors, found f32: run rtask-legalize first}}
func.func @main(%x: f32) -> f32 {
  return %x : f32
}

// -----

func.func private @k(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'rtask.operator': expected an rOperator, a view, a concatenation or a constant: run rtask-form-operators first}}
  %0 = func.call @k(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
