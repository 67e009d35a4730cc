// RUN: rammer-opt %s --split-input-file --rtask-pack-weights | filecheck %s

// A weight stored as outputs x inputs: the 24 outputs become the innermost dimension. `rtask.pack`
// alternates shapes and permutations.
// CHECK-DAG: #[[ROWS:.*]] = affine_map<(d0, d1, d2) -> (d0, d2)>
// CHECK-DAG: #[[PACKED:.*]] = affine_map<(d0, d1, d2) -> (d2, d1)>
// CHECK-DAG: #[[RESULT:.*]] = affine_map<(d0, d1, d2) -> (d0, d1)>
// CHECK: func.func @main(%[[X:.*]]: tensor<4x16xf32>, %[[INIT:.*]]: tensor<4x24xf32>,
// CHECK-SAME: %[[W:.*]]: tensor<16x24xf32> {rtask.constant = "w", rtask.pack = [array<i64: 24, 16>, array<i64: 1, 0>]})
// CHECK: linalg.generic {indexing_maps = [#[[ROWS]], #[[PACKED]], #[[RESULT]]]
// CHECK-SAME: ins(%[[X]], %[[W]] : tensor<4x16xf32>, tensor<16x24xf32>)
#rows = affine_map<(i, j, k) -> (i, k)>
#transposed = affine_map<(i, j, k) -> (j, k)>
#result = affine_map<(i, j, k) -> (i, j)>
func.func @main(%x: tensor<4x16xf32>, %w: tensor<24x16xf32> {rtask.constant = "w"},
                %init: tensor<4x24xf32>) -> tensor<4x24xf32> {
  %0 = linalg.generic {indexing_maps = [#rows, #transposed, #result],
                       iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<4x16xf32>, tensor<24x16xf32>) outs(%init : tensor<4x24xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<4x24xf32>
  return %0 : tensor<4x24xf32>
}

// -----

// A view of a weight is a weight; one that nothing reads any more is no argument.
// CHECK: func.func @main(%[[X:.*]]: tensor<24xf32>,
// CHECK-SAME: %[[W:[^:]*]]: tensor<24xf32> {rtask.constant = "w", rtask.pack = [array<i64: 24>]})
// CHECK-NEXT: arith.addf %[[X]], %[[W]]
func.func @main(%x: tensor<24xf32>, %w: tensor<2x12xf32> {rtask.constant = "w"}) -> tensor<24xf32> {
  %flat = tensor.collapse_shape %w [[0, 1]] : tensor<2x12xf32> into tensor<24xf32>
  %0 = arith.addf %x, %flat : tensor<24xf32>
  return %0 : tensor<24xf32>
}
