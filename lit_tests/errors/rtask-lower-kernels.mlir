// RUN: rammer-opt %s --split-input-file --verify-diagnostics --rtask-lower-kernels -o /dev/null

func.func private @again(%y: memref<4xf32>) {
  // expected-error @+1 {{'func.call': expected a function that does not call itself, found @again: use a loop of scf}}
  func.call @again(%y) : (memref<4xf32>) -> ()
  return
}
func.func private @k(%id: index, %y: memref<4xf32>) {
  func.call @again(%y) : (memref<4xf32>) -> ()
  return
}
