// RUN: rammer-opt %s --split-input-file --verify-diagnostics --rtask-from-gpu -o /dev/null

// expected-error @unknown {{expected one function with gpu.launch_func, found 0 (none): outline launches by gpu-kernel-outlining, and name one of several, rtask-from-gpu{function=NAME}}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func @other(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// expected-error @unknown {{expected one function with gpu.launch_func, found 0 (none): outline launches by gpu-kernel-outlining, and name one of several, rtask-from-gpu{function=NAME}}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
