// RUN: rammer-opt %s --split-input-file --verify-diagnostics --rtask-minimize-barriers -o /dev/null

// expected-error @unknown {{expected exactly one public function to compile, found 2 (main, other): mark helper functions private}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func @other(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// expected-error @unknown {{expected at least one rtask.program, found none: run rtask-schedule first}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
