// RUN: rammer-opt %s --split-input-file --verify-diagnostics --rtask-legalize -o /dev/null

// expected-error @+2 {{'func.func': argument 0: expected a tensor, found memref<4xf32>; give tensors, and leave bufferization to the compiler}}
// expected-error @+1 {{'func.func': expected at least one result, found none; return the tensors to compute}}
func.func @main(%x: memref<4xf32>) {
  return
}
