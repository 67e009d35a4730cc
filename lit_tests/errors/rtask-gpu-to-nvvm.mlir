// RUN: rammer-opt %s --split-input-file --verify-diagnostics --rtask-gpu-to-nvvm -o /dev/null

// expected-error @unknown {{expected a gpu.module, found none: run rtask-lower-to-gpu first}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func @other(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// expected-error @unknown {{expected a gpu.module, found none: run rtask-lower-to-gpu first}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
