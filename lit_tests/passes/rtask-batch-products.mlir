// RUN: rammer-opt %s --rtask-batch-products="rows=3 bytes=0" | filecheck %s
// RUN: rammer-opt %s --rtask-batch-products | filecheck %s --check-prefix=SMALL
// RUN: rammer-opt %s --rtask-batch-products="rows=3 bytes=0 device=cpu num-veus=64" | filecheck %s
// RUN: rammer-opt %s --rtask-batch-products="rows=3 bytes=0 device=ipu num-veus=1216" | filecheck %s --check-prefix=SMALL
// RUN: not rammer-opt %s --rtask-batch-products=rows=0 2>&1 | filecheck %s --check-prefix=SENSELESS

// The first two rows become one matrix. The third product waits for the first: it stays alone, and
// behind it stands what reads its result.
// CHECK:      func.func @main(%[[A:.*]]: tensor<1x8xf32>, %[[B:.*]]: tensor<1x8xf32>, %[[W:.*]]: tensor<8x8xf32> {
// CHECK:      %[[ROWS:.*]] = tensor.concat dim(0) %[[A]], %[[B]] : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<2x8xf32>
// CHECK:      %[[ALL:.*]] = linalg.generic {{.*}} ins(%[[ROWS]], %[[W]] : tensor<2x8xf32>, tensor<8x8xf32>)
// CHECK:      %[[FIRST:.*]] = tensor.extract_slice %[[ALL]][0, 0] [1, 8] [1, 1]
// CHECK:      %[[SECOND:.*]] = tensor.extract_slice %[[ALL]][1, 0] [1, 8] [1, 1]
// CHECK:      %[[THIRD:.*]] = linalg.generic {{.*}} ins(%[[FIRST]], %[[W]] : tensor<1x8xf32>, tensor<8x8xf32>)
// CHECK:      return %[[SECOND]], %[[THIRD]]

// Weights that stay in the first cache anyway are not worth it, nor are those in the memories of an
// IPU's tiles.
// SMALL-NOT:  tensor.concat
// SENSELESS:  rtask-batch-products: rows: expected at least 1, found 0
#left = affine_map<(m, n, k) -> (m, k)>
#right = affine_map<(m, n, k) -> (k, n)>
#out = affine_map<(m, n, k) -> (m, n)>
func.func @main(%a: tensor<1x8xf32>, %b: tensor<1x8xf32>,
    %w: tensor<8x8xf32> {rtask.constant = "w"}) -> (tensor<1x8xf32>, tensor<1x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<1x8xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x8xf32>) -> tensor<1x8xf32>
  %0 = linalg.generic {indexing_maps = [#left, #right, #out],
      iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %w : tensor<1x8xf32>, tensor<8x8xf32>) outs(%start : tensor<1x8xf32>) {
  ^bb0(%x: f32, %y: f32, %z: f32):
    %p = arith.mulf %x, %y : f32
    %s = arith.addf %z, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x8xf32>
  %1 = linalg.generic {indexing_maps = [#left, #right, #out],
      iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%0, %w : tensor<1x8xf32>, tensor<8x8xf32>) outs(%start : tensor<1x8xf32>) {
  ^bb0(%x: f32, %y: f32, %z: f32):
    %p = arith.mulf %x, %y : f32
    %s = arith.addf %z, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x8xf32>
  %2 = linalg.generic {indexing_maps = [#left, #right, #out],
      iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%b, %w : tensor<1x8xf32>, tensor<8x8xf32>) outs(%start : tensor<1x8xf32>) {
  ^bb0(%x: f32, %y: f32, %z: f32):
    %p = arith.mulf %x, %y : f32
    %s = arith.addf %z, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x8xf32>
  return %2, %1 : tensor<1x8xf32>, tensor<1x8xf32>
}
