// RUN: rammer-opt %s --split-input-file --verify-diagnostics --rtask-chunk-chains -o /dev/null

// expected-error @+1 {{'func.func': expected static tensors, found memref<4xf32>: it has buffers already}}
func.func @main(%x: memref<4xf32>) {
  return
}

// -----

// expected-error @+1 {{'func.func': expected static tensors, found tensor<?xf32>: give open dimensions a size}}
func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  return %x : tensor<?xf32>
}

// -----

// expected-error @+1 {{'func.func': expected a function of one block, found 2: use scf}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  cf.br ^end
^end:
  return %x : tensor<4xf32>
}
