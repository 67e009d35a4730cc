// RUN: rammer-opt %s --rtask-winograd="tile=2 form=strips" | filecheck %s

// A result that is returned only transposed: Winograd's rOperator computes it in blocks of channels,
// an rOperator of its own transposes it.
// CHECK: func.func private @winograd_0(
// CHECK-SAME: -> tensor<1x1x4x2x4x2x16xf32> {
// CHECK: func.func private @transpose_0(%{{.*}}: tensor<1x1x8x8x16xf32>) -> tensor<1x1x16x8x8xf32> {
// CHECK: func.func @main
// CHECK: %[[Y:[a-z0-9_]+]] = rtask.operator @winograd_0(
// CHECK: %[[WHOLE:[a-z0-9_]+]] = tensor.collapse_shape %[[Y]]
// CHECK: %[[T:[a-z0-9_]+]] = rtask.operator @transpose_0(%[[WHOLE]])
// CHECK: return %[[T]] : tensor<1x1x16x8x8xf32>
#image = affine_map<(n, k, h, w, l, c, i, j, m) -> (n, c, h + i, w + j, m)>
#window = affine_map<(n, k, h, w, l, c, i, j, m) -> (k, c, i, j, m, l)>
#result = affine_map<(n, k, h, w, l, c, i, j, m) -> (n, k, h, w, l)>
#same = affine_map<(n, k, h, w, l) -> (n, k, h, w, l)>
#lanes_first = affine_map<(n, k, h, w, l) -> (n, k, l, h, w)>
func.func private @conv(%x: tensor<1x1x10x10x16xf32>, %w: tensor<1x1x3x3x16x16xf32>)
    -> tensor<1x1x16x8x8xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<1x1x8x8x16xf32>
  %init = linalg.generic {indexing_maps = [#same],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]}
      outs(%empty : tensor<1x1x8x8x16xf32>) {
  ^bb0(%c: f32):
    linalg.yield %zero : f32
  } -> tensor<1x1x8x8x16xf32>
  %0 = linalg.generic {indexing_maps = [#image, #window, #result],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel",
                        "reduction", "reduction", "reduction", "reduction"]}
      ins(%x, %w : tensor<1x1x10x10x16xf32>, tensor<1x1x3x3x16x16xf32>)
      outs(%init : tensor<1x1x8x8x16xf32>) {
  ^bb0(%a: f32, %c: f32, %d: f32):
    %p = arith.mulf %a, %c : f32
    %s = arith.addf %d, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x1x8x8x16xf32>
  %out = tensor.empty() : tensor<1x1x16x8x8xf32>
  %1 = linalg.generic {indexing_maps = [#same, #lanes_first],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]}
      ins(%0 : tensor<1x1x8x8x16xf32>) outs(%out : tensor<1x1x16x8x8xf32>) {
  ^bb0(%a: f32, %c: f32):
    linalg.yield %a : f32
  } -> tensor<1x1x16x8x8xf32>
  return %1 : tensor<1x1x16x8x8xf32>
}
func.func @main(%x: tensor<1x1x10x10x16xf32>,
                %w: tensor<1x1x3x3x16x16xf32> {rtask.constant = "w"}) -> tensor<1x1x16x8x8xf32> {
  %0 = rtask.operator @conv(%x, %w) : (tensor<1x1x10x10x16xf32>, tensor<1x1x3x3x16x16xf32>) -> tensor<1x1x16x8x8xf32>
  return %0 : tensor<1x1x16x8x8xf32>
}
