// RUN: rammer-opt %s --split-input-file --rtask-block-reductions --canonicalize --cse | filecheck %s

#left = affine_map<(m, n, k) -> (m, k)>
#right = affine_map<(m, n, k) -> (k, n)>
#result = affine_map<(m, n, k) -> (m, n)>

// Four terms become adjacent in both factors: a view of the data, a new layout of the weights.
// CHECK-DAG: #[[LEFT:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>
// CHECK-DAG: #[[RIGHT:.*]] = affine_map<(d0, d1, d2, d3) -> (d2, d1, d3)>
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[A:[^:]*]]: tensor<5x16xi8>
// CHECK-SAME: %[[W:[^:]*]]: tensor<4x8x4xi8> {rtask.constant = "w", rtask.pack = [array<i64: 4, 4, 8>, array<i64: 0, 2, 1>]}
// CHECK: %[[X:.*]] = tensor.expand_shape %[[A]] {{.*}} : tensor<5x16xi8> into tensor<5x4x4xi8>
// CHECK: linalg.generic {indexing_maps = [#[[LEFT]], #[[RIGHT]], #{{.*}}], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%[[X]], %[[W]] :
func.func @main(%a: tensor<5x16xi8>, %w: tensor<16x8xi8> {rtask.constant = "w"}) -> tensor<5x8xi32> {
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<5x8xi32>
  %init = linalg.fill ins(%zero : i32) outs(%e : tensor<5x8xi32>) -> tensor<5x8xi32>
  %y = linalg.generic {indexing_maps = [#left, #right, #result], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %w : tensor<5x16xi8>, tensor<16x8xi8>) outs(%init : tensor<5x8xi32>) {
  ^bb0(%in: i8, %by: i8, %out: i32):
    %0 = arith.extui %in : i8 to i32
    %1 = arith.extsi %by : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %out, %2 : i32
    linalg.yield %3 : i32
  } -> tensor<5x8xi32>
  return %y : tensor<5x8xi32>
}

// -----

#left = affine_map<(m, n, k) -> (m, k)>
#right = affine_map<(m, n, k) -> (n, k)>
#result = affine_map<(m, n, k) -> (m, n)>

// Four does not divide 18 terms: both factors are padded with zeros.
// CHECK-LABEL: func.func @main
// CHECK-SAME: tensor<5x8x4xi8> {rtask.constant = "w", rtask.pack = [array<i64: 8, 5, 4>, array<i64: 1, 0, 2>], rtask.parts = [{low = array<i64: 0, 0>, rtask.constant = "w", shape = array<i64: 8, 18>, size = array<i64: 8, 20>}]}
// CHECK: tensor.pad %{{.*}} low[0, 0] high[0, 2]
// CHECK: tensor.yield %c0_i8 : i8
func.func @main(%a: tensor<5x18xi8>, %w: tensor<8x18xi8> {rtask.constant = "w"}) -> tensor<5x8xi32> {
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<5x8xi32>
  %init = linalg.fill ins(%zero : i32) outs(%e : tensor<5x8xi32>) -> tensor<5x8xi32>
  %y = linalg.generic {indexing_maps = [#left, #right, #result], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %w : tensor<5x18xi8>, tensor<8x18xi8>) outs(%init : tensor<5x8xi32>) {
  ^bb0(%in: i8, %by: i8, %out: i32):
    %0 = arith.extsi %in : i8 to i32
    %1 = arith.extui %by : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %out, %2 : i32
    linalg.yield %3 : i32
  } -> tensor<5x8xi32>
  return %y : tensor<5x8xi32>
}

// -----

#left = affine_map<(m, n, k) -> (m, k)>
#right = affine_map<(m, n, k) -> (k, n)>
#result = affine_map<(m, n, k) -> (m, n)>

// Two signed factors, for which there is no instruction, stay.
// CHECK-LABEL: func.func @main
// CHECK: iterator_types = ["parallel", "parallel", "reduction"]
func.func @main(%a: tensor<5x16xi8>, %w: tensor<16x8xi8> {rtask.constant = "w"}) -> tensor<5x8xi32> {
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<5x8xi32>
  %init = linalg.fill ins(%zero : i32) outs(%e : tensor<5x8xi32>) -> tensor<5x8xi32>
  %y = linalg.generic {indexing_maps = [#left, #right, #result], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %w : tensor<5x16xi8>, tensor<16x8xi8>) outs(%init : tensor<5x8xi32>) {
  ^bb0(%in: i8, %by: i8, %out: i32):
    %0 = arith.extsi %in : i8 to i32
    %1 = arith.extsi %by : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %out, %2 : i32
    linalg.yield %3 : i32
  } -> tensor<5x8xi32>
  return %y : tensor<5x8xi32>
}
