// RUN: rammer-opt %s --split-input-file --rtask-split-products=rows=4 | filecheck %s

// Ten steps, four at a time: the last part begins at the sixth, and repeats two of the second.
// CHECK-LABEL: func.func @main
// CHECK: %[[A:.*]] = tensor.extract_slice %arg0[0, 0] [4, 16] [1, 1] : tensor<10x16xf32> to tensor<4x16xf32>
// CHECK: linalg.fill {{.*}} -> tensor<4x64xf32>
// CHECK: linalg.generic {{.*}} ins(%[[A]], %arg1 : tensor<4x16xf32>, tensor<16x64xf32>) outs({{.*}} : tensor<4x64xf32>)
// CHECK: %[[SUM_A:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %arg2 : tensor<4x64xf32>, tensor<64xf32>)
// CHECK: %[[STEPS_A:.*]] = tensor.expand_shape %[[SUM_A]] {{\[\[}}0], [1, 2]] output_shape [4, 1, 64]
// CHECK: tensor.extract_slice %arg0[4, 0] [4, 16]
// CHECK: %[[STEPS_B:.*]] = tensor.expand_shape
// CHECK: tensor.extract_slice %arg0[6, 0] [4, 16]
// CHECK: %[[STEPS_C:.*]] = tensor.expand_shape
// CHECK-NOT: tensor<10x64xf32>
// CHECK: tensor.extract_slice %[[STEPS_A]][3, 0, 0] [1, 1, 64]
// CHECK: tensor.extract_slice %[[STEPS_B]][0, 0, 0] [1, 1, 64]
// CHECK: tensor.extract_slice %[[STEPS_C]][3, 0, 0] [1, 1, 64]
// CHECK: tensor.extract_slice %[[STEPS_C]][2, 0, 0] [1, 1, 64]
#left = affine_map<(m, n, k) -> (m, k)>
#right = affine_map<(m, n, k) -> (k, n)>
#result = affine_map<(m, n, k) -> (m, n)>
#same = affine_map<(m, n) -> (m, n)>
#columns = affine_map<(m, n) -> (n)>
func.func @main(%x: tensor<10x16xf32>, %w: tensor<16x64xf32> {rtask.constant = "w"},
                %b: tensor<64xf32> {rtask.constant = "b"})
    -> (tensor<1x1x64xf32>, tensor<1x1x64xf32>, tensor<1x1x64xf32>, tensor<1x1x64xf32>) {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<10x64xf32>
  %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<10x64xf32>) -> tensor<10x64xf32>
  %2 = linalg.generic {indexing_maps = [#left, #right, #result],
                       iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<10x16xf32>, tensor<16x64xf32>) outs(%1 : tensor<10x64xf32>) {
  ^bb0(%u: f32, %v: f32, %c: f32):
    %p = arith.mulf %u, %v : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<10x64xf32>
  %3 = linalg.generic {indexing_maps = [#same, #columns, #same],
                       iterator_types = ["parallel", "parallel"]}
      ins(%2, %b : tensor<10x64xf32>, tensor<64xf32>) outs(%0 : tensor<10x64xf32>) {
  ^bb0(%u: f32, %v: f32, %c: f32):
    %s = arith.addf %u, %v : f32
    linalg.yield %s : f32
  } -> tensor<10x64xf32>
  %4 = tensor.expand_shape %3 [[0], [1, 2]] output_shape [10, 1, 64] : tensor<10x64xf32> into tensor<10x1x64xf32>
  %5 = tensor.extract_slice %4[3, 0, 0] [1, 1, 64] [1, 1, 1] : tensor<10x1x64xf32> to tensor<1x1x64xf32>
  %6 = tensor.extract_slice %4[4, 0, 0] [1, 1, 64] [1, 1, 1] : tensor<10x1x64xf32> to tensor<1x1x64xf32>
  %7 = tensor.extract_slice %4[9, 0, 0] [1, 1, 64] [1, 1, 1] : tensor<10x1x64xf32> to tensor<1x1x64xf32>
  %8 = tensor.extract_slice %4[8, 0, 0] [1, 1, 64] [1, 1, 1] : tensor<10x1x64xf32> to tensor<1x1x64xf32>
  return %5, %6, %7, %8 : tensor<1x1x64xf32>, tensor<1x1x64xf32>, tensor<1x1x64xf32>, tensor<1x1x64xf32>
}

// -----

// Steps of two rows are taken two at a time, and rows without a view one by one.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-3: linalg.generic {{.*}} outs({{.*}} : tensor<4x8xf32>)
// CHECK-NOT: linalg.generic
// CHECK: return
#left = affine_map<(m, n, k) -> (m, k)>
#right = affine_map<(m, n, k) -> (k, n)>
#result = affine_map<(m, n, k) -> (m, n)>
func.func @main(%x: tensor<12x16xf32>, %w: tensor<16x8xf32> {rtask.constant = "w"})
    -> tensor<1x2x8xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<12x8xf32>
  %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<12x8xf32>) -> tensor<12x8xf32>
  %2 = linalg.generic {indexing_maps = [#left, #right, #result],
                       iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<12x16xf32>, tensor<16x8xf32>) outs(%1 : tensor<12x8xf32>) {
  ^bb0(%u: f32, %v: f32, %c: f32):
    %p = arith.mulf %u, %v : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<12x8xf32>
  %3 = tensor.expand_shape %2 [[0, 1], [2]] output_shape [6, 2, 8] : tensor<12x8xf32> into tensor<6x2x8xf32>
  %4 = tensor.extract_slice %3[5, 0, 0] [1, 2, 8] [1, 1, 1] : tensor<6x2x8xf32> to tensor<1x2x8xf32>
  return %4 : tensor<1x2x8xf32>
}

// -----

// A reader of all rows wants them at once.
// CHECK-LABEL: func.func @main
// CHECK: linalg.generic {{.*}} outs({{.*}} : tensor<12x8xf32>)
// CHECK: tensor.extract_slice %{{.*}}[3, 0] [1, 8]
#left = affine_map<(m, n, k) -> (m, k)>
#right = affine_map<(m, n, k) -> (k, n)>
#result = affine_map<(m, n, k) -> (m, n)>
func.func @main(%x: tensor<12x16xf32>, %w: tensor<16x8xf32> {rtask.constant = "w"})
    -> (tensor<1x8xf32>, tensor<12x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<12x8xf32>
  %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<12x8xf32>) -> tensor<12x8xf32>
  %2 = linalg.generic {indexing_maps = [#left, #right, #result],
                       iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<12x16xf32>, tensor<16x8xf32>) outs(%1 : tensor<12x8xf32>) {
  ^bb0(%u: f32, %v: f32, %c: f32):
    %p = arith.mulf %u, %v : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<12x8xf32>
  %3 = tensor.extract_slice %2[3, 0] [1, 8] [1, 1] : tensor<12x8xf32> to tensor<1x8xf32>
  return %3, %2 : tensor<1x8xf32>, tensor<12x8xf32>
}
