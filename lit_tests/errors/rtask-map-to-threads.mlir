// RUN: rammer-opt %s --split-input-file --verify-diagnostics --rtask-map-to-threads -o /dev/null

func.func private @k(%id: index, %y: memref<4xf32>) {
  return
}
// expected-error @+1 {{'rtask.kernel': expected rKernels alone, found a description, which mapped rKernels would contradict: run rtask-lower-to-gpu}}
rtask.kernel @k rtasks(2) operations(1) bytes(1) {
  writes 0[d0 * 2 +: 2]
}
func.func @main(%y: memref<4xf32> {rtask.output}) {
  rtask.operator 0 @k(%y) : (memref<4xf32>) -> ()
  return
}

// -----

func.func private @again(%y: memref<4xf32>) {
  // expected-error @+1 {{'func.call': expected a function that does not call itself, found @again: use a loop of scf}}
  func.call @again(%y) : (memref<4xf32>) -> ()
  return
}
func.func private @k(%id: index, %y: memref<4xf32>) {
  func.call @again(%y) : (memref<4xf32>) -> ()
  return
}
