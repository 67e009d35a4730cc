// RUN: rammer-opt %s --split-input-file --verify-diagnostics --rtask-profile-kernels -o /dev/null

// expected-error @+1 {{'func.func': expected static memrefs, found tensor<4xf32>: run rtask-bufferize first}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

func.func private @k(%id: index, %y: memref<4xf32>) {
  return
}
rtask.kernel @k rtasks(2) operations(1) bytes(1) {
  writes 0[d0 * 2 +: 2]
}
func.func @main(%y: memref<4xf32> {rtask.output}) {
  // expected-error @+1 {{'rtask.program': expected rOperators, found an rProgram: it is scheduled}}
  rtask.program on "cpu" veus(1) buffers(%y: memref<4xf32>) {
    veu 0 {
      run @k[0] of 0 (%y)
    }
  }
  return
}
