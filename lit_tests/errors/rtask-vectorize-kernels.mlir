// RUN: rammer-opt %s --split-input-file --verify-diagnostics --rtask-vectorize-kernels -o /dev/null

// expected-error @+1 {{'func.func': expected rKernels on memrefs, found tensors: run rtask-bufferize}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
