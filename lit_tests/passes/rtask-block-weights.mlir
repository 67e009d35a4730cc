// RUN: rammer-opt %s --split-input-file --rtask-block-weights | filecheck %s
// RUN: rammer-opt %s --split-input-file "--rtask-block-weights=width=16" | filecheck --check-prefix=NARROW %s

// 96 output channels are three panels of 32: what is indexed by them is split in two, the weight
// is stored as one panel after the other.
// CHECK-DAG: #[[ROWS:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d3)>
// CHECK-DAG: #[[PANELS:.*]] = affine_map<(d0, d1, d2, d3) -> (d1, d3, d2)>
// CHECK-DAG: #[[RESULT:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
// CHECK-DAG: #[[BIAS:.*]] = affine_map<(d0, d1, d2) -> (d1, d2)>
// CHECK: func.func private @matmul(%[[X:.*]]: tensor<4x16xf32>, %[[W:.*]]: tensor<3x16x32xf32>,
// CHECK-SAME: %[[B:.*]]: tensor<3x32xf32>) -> tensor<4x3x32xf32>
// CHECK: linalg.generic {indexing_maps = [#[[ROWS]], #[[PANELS]], #[[RESULT]]],
// CHECK-SAME: iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
// CHECK-SAME: ins(%[[X]], %[[W]] : tensor<4x16xf32>, tensor<3x16x32xf32>)
// CHECK: linalg.generic {indexing_maps = [{{.*}}, #[[BIAS]], {{.*}}]
// CHECK: func.func @main(%[[X:.*]]: tensor<4x16xf32>, %[[B:.*]]: tensor<96xf32> {rtask.constant = "b"},
// CHECK-SAME: %[[W:.*]]: tensor<3x16x32xf32> {rtask.constant = "w",
// CHECK-SAME: rtask.pack = [array<i64: 16, 3, 32>, array<i64: 1, 0, 2>]})
// CHECK: %[[BIAS2:.*]] = tensor.expand_shape %[[B]] {{\[}}[0, 1]] output_shape [3, 32]
// CHECK: %[[Y:.*]] = rtask.operator @matmul(%[[X]], %[[W]], %[[BIAS2]]) {{.*}} -> tensor<4x3x32xf32>
// CHECK: tensor.collapse_shape %[[Y]] {{\[}}[0], [1, 2]] : tensor<4x3x32xf32> into tensor<4x96xf32>

// Panels of 16 channels are for processors whose register tiles compute 16.
// NARROW: func.func private @matmul({{.*}}: tensor<6x16x16xf32>, {{.*}}: tensor<6x16xf32>) -> tensor<4x6x16xf32>
// NARROW: rtask.pack = [array<i64: 16, 6, 16>, array<i64: 1, 0, 2>]
// NARROW: affine_map<(d0, d1, d2) -> (d1 floordiv 16, d2, d1 mod 16)>
// NARROW: func.func private @padded({{.*}}: tensor<3x16x16xf32>, {{.*}}: tensor<4x40xf32>) -> tensor<4x40xf32>
#rows = affine_map<(i, j, k) -> (i, k)>
#columns = affine_map<(i, j, k) -> (k, j)>
#result = affine_map<(i, j, k) -> (i, j)>
#same = affine_map<(i, j) -> (i, j)>
#bias = affine_map<(i, j) -> (j)>
func.func private @matmul(%x: tensor<4x16xf32>, %w: tensor<16x96xf32>, %b: tensor<96xf32>)
    -> tensor<4x96xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<4x96xf32>
  %init = linalg.generic {indexing_maps = [#same], iterator_types = ["parallel", "parallel"]}
      outs(%empty : tensor<4x96xf32>) {
  ^bb0(%c: f32):
    linalg.yield %zero : f32
  } -> tensor<4x96xf32>
  %0 = linalg.generic {indexing_maps = [#rows, #columns, #result],
                       iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<4x16xf32>, tensor<16x96xf32>) outs(%init : tensor<4x96xf32>) {
  ^bb0(%a: f32, %c: f32, %d: f32):
    %p = arith.mulf %a, %c : f32
    %s = arith.addf %d, %p : f32
    linalg.yield %s : f32
  } -> tensor<4x96xf32>
  %1 = linalg.generic {indexing_maps = [#same, #bias, #same],
                       iterator_types = ["parallel", "parallel"]}
      ins(%0, %b : tensor<4x96xf32>, tensor<96xf32>) outs(%empty : tensor<4x96xf32>) {
  ^bb0(%a: f32, %c: f32, %d: f32):
    %s = arith.addf %a, %c : f32
    linalg.yield %s : f32
  } -> tensor<4x96xf32>
  return %1 : tensor<4x96xf32>
}
func.func @main(%x: tensor<4x16xf32>, %w: tensor<16x96xf32> {rtask.constant = "w"},
                %b: tensor<96xf32> {rtask.constant = "b"}) -> tensor<4x96xf32> {
  %0 = rtask.operator @matmul(%x, %w, %b) : (tensor<4x16xf32>, tensor<16x96xf32>, tensor<96xf32>) -> tensor<4x96xf32>
  return %0 : tensor<4x96xf32>
}

// -----

// An operand that is not known at compile time stays as it is.
// CHECK: func.func private @product(%{{.*}}: tensor<4x16xf32>, %{{.*}}: tensor<16x96xf32>,
#rows = affine_map<(i, j, k) -> (i, k)>
#columns = affine_map<(i, j, k) -> (k, j)>
#result = affine_map<(i, j, k) -> (i, j)>
func.func private @product(%x: tensor<4x16xf32>, %w: tensor<16x96xf32>, %init: tensor<4x96xf32>)
    -> tensor<4x96xf32> {
  %0 = linalg.generic {indexing_maps = [#rows, #columns, #result],
                       iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<4x16xf32>, tensor<16x96xf32>) outs(%init : tensor<4x96xf32>) {
  ^bb0(%a: f32, %c: f32, %d: f32):
    %p = arith.mulf %a, %c : f32
    %s = arith.addf %d, %p : f32
    linalg.yield %s : f32
  } -> tensor<4x96xf32>
  return %0 : tensor<4x96xf32>
}
func.func @main(%x: tensor<4x16xf32>, %w: tensor<16x96xf32>, %init: tensor<4x96xf32>)
    -> tensor<4x96xf32> {
  %0 = rtask.operator @product(%x, %w, %init) : (tensor<4x16xf32>, tensor<16x96xf32>, tensor<4x96xf32>) -> tensor<4x96xf32>
  return %0 : tensor<4x96xf32>
}

// -----

// 40 output channels are no whole panels: weights are stored in two, the second of them padded with
// zeros, and read by the number of a channel's panel and its place there. All else stays.
// CHECK-DAG: #[[PANELS:.*]] = affine_map<(d0, d1, d2) -> (d1 floordiv 32, d2, d1 mod 32)>
// CHECK: func.func private @padded(%{{.*}}: tensor<4x16xf32>, %{{.*}}: tensor<2x16x32xf32>,
// CHECK-SAME: %{{.*}}: tensor<4x40xf32>) -> tensor<4x40xf32>
// CHECK: linalg.generic {indexing_maps = [{{.*}}, #[[PANELS]], {{.*}}]
// CHECK: func.func @main(%{{.*}}: tensor<4x16xf32>, %{{.*}}: tensor<4x40xf32>,
// CHECK-SAME: tensor<2x16x32xf32> {rtask.constant = "w",
// CHECK-SAME: rtask.pack = [array<i64: 16, 2, 32>, array<i64: 1, 0, 2>],
// CHECK-SAME: low = array<i64: 0, 0>, rtask.constant = "w", shape = array<i64: 16, 40>, size = array<i64: 16, 64>
#rows = affine_map<(i, j, k) -> (i, k)>
#columns = affine_map<(i, j, k) -> (k, j)>
#result = affine_map<(i, j, k) -> (i, j)>
func.func private @padded(%x: tensor<4x16xf32>, %w: tensor<16x40xf32>, %init: tensor<4x40xf32>)
    -> tensor<4x40xf32> {
  %0 = linalg.generic {indexing_maps = [#rows, #columns, #result],
                       iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<4x16xf32>, tensor<16x40xf32>) outs(%init : tensor<4x40xf32>) {
  ^bb0(%a: f32, %c: f32, %d: f32):
    %p = arith.mulf %a, %c : f32
    %s = arith.addf %d, %p : f32
    linalg.yield %s : f32
  } -> tensor<4x40xf32>
  return %0 : tensor<4x40xf32>
}
func.func @main(%x: tensor<4x16xf32>, %w: tensor<16x40xf32> {rtask.constant = "w"}, %init: tensor<4x40xf32>) -> tensor<4x40xf32> {
  %0 = rtask.operator @padded(%x, %w, %init) : (tensor<4x16xf32>, tensor<16x40xf32>, tensor<4x40xf32>) -> tensor<4x40xf32>
  return %0 : tensor<4x40xf32>
}
