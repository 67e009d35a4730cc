// RUN: rammer-opt %s --split-input-file --verify-diagnostics --rtask-legalize -o /dev/null

// expected-error @+2 {{'func.func': argument 0: expected a tensor, found memref<4xf32>; give tensors, and leave bufferization to the compiler}}
// expected-error @+1 {{'func.func': expected at least one result, found none; return the tensors to compute}}
func.func @main(%x: memref<4xf32>) {
  return
}

// -----

// Loops that leave out elements of their result.
func.func @partial(%a: tensor<4xf32>, %b: tensor<4x3xf32>) -> tensor<4x3xf32> {
  // expected-error @below {{expected loops that cover each result, found the indexing map (d0) -> (d0, 0); compute all elements, or insert the computed ones by tensor.insert_slice}}
  %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0, 0)>],
      iterator_types = ["parallel"]} ins(%a : tensor<4xf32>) outs(%b : tensor<4x3xf32>) {
  ^bb0(%x: f32, %o: f32):
    linalg.yield %x : f32
  } -> tensor<4x3xf32>
  return %r : tensor<4x3xf32>
}
