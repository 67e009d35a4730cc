// RUN: rammer-opt %s --split-input-file --verify-diagnostics --rtask-bufferize -o /dev/null

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

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'func.return': operand 0 cannot be used in place: expected no such operand, run rtask-insert-copies first}}
  return %x : tensor<4xf32>
}

// -----

// expected-error @unknown {{expected exactly one public function to compile, found none: give one a body and public visibility}}
func.func private @f(%x: tensor<4xf32>)
