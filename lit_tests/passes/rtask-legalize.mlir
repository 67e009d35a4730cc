// RUN: rammer-opt %s --split-input-file --verify-diagnostics --rtask-legalize | filecheck %s

// Elementwise operations on tensors become linalg.
// CHECK-LABEL: func.func @elementwise
// CHECK-NOT: arith.addf %{{.*}} : tensor
// CHECK: linalg.generic
// CHECK: arith.addf %{{.*}} : f32
func.func @elementwise(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
  %r = arith.addf %a, %b : tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

// Calls are inlined.
// CHECK-NOT: @helper
// CHECK-LABEL: func.func @caller
// CHECK: math.exp
func.func private @helper(%a: tensor<8xf32>) -> tensor<8xf32> {
  %r = math.exp %a : tensor<8xf32>
  return %r : tensor<8xf32>
}
func.func @caller(%a: tensor<8xf32>) -> tensor<8xf32> {
  %r = func.call @helper(%a) : (tensor<8xf32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

// TOSA and StableHLO become linalg.
// CHECK-LABEL: func.func @tosa
// CHECK: math.tanh
// CHECK-LABEL: func.func @stablehlo
// CHECK: math.exp
func.func @tosa(%a: tensor<4xf32>) -> tensor<4xf32> {
  %r = tosa.tanh %a : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
func.func @stablehlo(%a: tensor<4xf32>) -> tensor<4xf32> {
  %r = stablehlo.exponential %a : tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// Everything that is left is refused in one go.
func.func @refused(%a: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{expected linalg, tensor, arith and math operations, found 'bufferization.dealloc_tensor'; give tensors, and leave bufferization to the compiler}}
  bufferization.dealloc_tensor %a : tensor<4xf32>
  return %a : tensor<4xf32>
}

// -----

// expected-error @below {{argument 0: expected a tensor, found memref<4xf32>}}
// expected-error @below {{expected at least one result, found none}}
func.func @buffers(%a: memref<4xf32>) {
  return
}

// -----

// expected-error @below {{expected one block, found 2; give structured control flow (scf), or functions of one block}}
func.func @blocks(%a: tensor<4xf32>) -> tensor<4xf32> {
  cf.br ^end
^end:
  return %a : tensor<4xf32>
}
