// RUN: rammer-opt %s --split-input-file --verify-diagnostics --rtask-tile -o /dev/null

func.func private @k(%id: index, %y: memref<4xf32>) {
  return
}
// expected-error @+1 {{'rtask.kernel': expected rOperators on whole tensors, found rKernels: they are tiled}}
rtask.kernel @k rtasks(2) operations(1) bytes(1) {
  writes 0[d0 * 2 +: 2]
}
func.func @main(%y: memref<4xf32> {rtask.output}) {
  rtask.operator 0 @k(%y) : (memref<4xf32>) -> ()
  return
}

// -----

func.func private @k(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'func.call': expected rOperators, found a call: run rtask-legalize, which inlines calls}}
  %0 = func.call @k(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
