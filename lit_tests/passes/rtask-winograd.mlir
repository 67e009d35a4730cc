// RUN: rammer-opt %s --rtask-winograd="tile=2 form=strips" | filecheck %s --check-prefix=STRIPS
// RUN: rammer-opt %s --rtask-winograd="tile=4 form=operators" | filecheck %s --check-prefix=THREE
// RUN: rammer-opt %s --rtask-winograd | filecheck %s --check-prefix=CHOSEN

// In strips, one function transforms the image, multiplies and transforms back; what follows on the
// result has its loops over rows and columns cut into tiles.
// STRIPS: func.func private @winograd_0(%[[X:[a-z0-9_]+]]: tensor<1x1x10x10x16xf32>, %[[W:[a-z0-9_]+]]: tensor<4x4x1x1x16x16xf32>,
// STRIPS-SAME: %[[B:[a-z0-9_]+]]: tensor<1x16xf32>) -> tensor<1x1x4x2x4x2x16xf32> {
// STRIPS: %[[DATA:[a-z0-9_]+]] = arith.constant dense<{{.*}}> : tensor<4x4xf32>
// STRIPS: %[[TILES:[a-z0-9_]+]] = linalg.generic {{.*}} ins(%[[DATA]], %{{.*}}, %[[X]] :
// STRIPS-SAME: outs(%{{.*}} : tensor<1x1x4x4x4x4x16xf32>)
// STRIPS: %[[SUMS:[a-z0-9_]+]] = linalg.generic {{.*}} ins(%[[TILES]], %[[W]] :
// STRIPS: %[[INVERSE:[a-z0-9_]+]] = arith.constant dense<{{.*}}> : tensor<2x4xf32>
// STRIPS: %[[RESULT:[a-z0-9_]+]] = linalg.generic {{.*}} ins(%[[INVERSE]], %{{.*}}, %[[SUMS]] :
// STRIPS-SAME: outs(%{{.*}} : tensor<1x1x4x2x4x2x16xf32>)
// STRIPS: linalg.generic {{.*}} ins(%[[RESULT]], %[[B]] :
// STRIPS: func.func @main
// STRIPS-SAME: %[[U:[a-z0-9]+]]: tensor<4x4x1x1x16x16xf32> {rtask.constant = "w",
// STRIPS-SAME: dense<{{.*}}> : tensor<4x3xf64>{{.*}}dense<{{.*}}> : tensor<4x3xf64>
// STRIPS: %[[Y:[a-z0-9_]+]] = rtask.operator @winograd_0(%{{.*}}, %[[U]], %{{.*}})
// STRIPS: tensor.collapse_shape %[[Y]] {{\[}}[0], [1], [2, 3], [4, 5], [6]]
// STRIPS-SAME: into tensor<1x1x8x8x16xf32>

// Three rOperators; 7 rows and columns are not whole tiles: more zeros go around the image, and the
// result is cut.
// THREE: func.func @main
// THREE: %[[TILES:[a-z0-9_]+]] = rtask.operator @winograd_image_0(
// THREE: %[[SUMS:[a-z0-9_]+]] = rtask.operator @winograd_product_0(%[[TILES]],
// THREE: rtask.operator @winograd_result_0(%[[SUMS]],
// THREE: %[[PADDED:[a-z0-9_]+]] = tensor.pad %{{.*}} low[0, 0, 1, 1, 0] high[0, 0, 2, 2, 0]
// THREE: rtask.operator @winograd_image_0(%[[PADDED]])
// THREE: tensor.extract_slice %{{.*}} : tensor<1x1x8x8x16xf32> to tensor<1x1x7x7x16xf32>

// For so little work, none of it pays.
// CHOSEN-NOT: winograd
#image = affine_map<(n, k, h, w, l, c, i, j, m) -> (n, c, h + i, w + j, m)>
#window = affine_map<(n, k, h, w, l, c, i, j, m) -> (k, c, i, j, m, l)>
#result = affine_map<(n, k, h, w, l, c, i, j, m) -> (n, k, h, w, l)>
#same = affine_map<(n, k, h, w, l) -> (n, k, h, w, l)>
#channel = affine_map<(n, k, h, w, l) -> (k, l)>
func.func private @conv(%x: tensor<1x1x10x10x16xf32>, %w: tensor<1x1x3x3x16x16xf32>,
                        %b: tensor<1x16xf32>) -> tensor<1x1x8x8x16xf32> {
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
  %1 = linalg.generic {indexing_maps = [#same, #channel, #same],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]}
      ins(%0, %b : tensor<1x1x8x8x16xf32>, tensor<1x16xf32>)
      outs(%empty : tensor<1x1x8x8x16xf32>) {
  ^bb0(%a: f32, %c: f32, %d: f32):
    %s = arith.addf %a, %c : f32
    linalg.yield %s : f32
  } -> tensor<1x1x8x8x16xf32>
  return %1 : tensor<1x1x8x8x16xf32>
}
func.func private @small(%x: tensor<1x1x9x9x16xf32>, %w: tensor<1x1x3x3x16x16xf32>)
    -> tensor<1x1x7x7x16xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<1x1x7x7x16xf32>
  %init = linalg.generic {indexing_maps = [#same],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]}
      outs(%empty : tensor<1x1x7x7x16xf32>) {
  ^bb0(%c: f32):
    linalg.yield %zero : f32
  } -> tensor<1x1x7x7x16xf32>
  %0 = linalg.generic {indexing_maps = [#image, #window, #result],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel",
                        "reduction", "reduction", "reduction", "reduction"]}
      ins(%x, %w : tensor<1x1x9x9x16xf32>, tensor<1x1x3x3x16x16xf32>)
      outs(%init : tensor<1x1x7x7x16xf32>) {
  ^bb0(%a: f32, %c: f32, %d: f32):
    %p = arith.mulf %a, %c : f32
    %s = arith.addf %d, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x1x7x7x16xf32>
  return %0 : tensor<1x1x7x7x16xf32>
}
func.func @main(%x: tensor<1x1x10x10x16xf32>, %y: tensor<1x1x7x7x16xf32>,
                %w: tensor<1x1x3x3x16x16xf32> {rtask.constant = "w"},
                %b: tensor<1x16xf32> {rtask.constant = "b"})
    -> (tensor<1x1x8x8x16xf32>, tensor<1x1x7x7x16xf32>) {
  %zero = arith.constant 0.0 : f32
  %0 = rtask.operator @conv(%x, %w, %b) : (tensor<1x1x10x10x16xf32>, tensor<1x1x3x3x16x16xf32>, tensor<1x16xf32>) -> tensor<1x1x8x8x16xf32>
  %padded = tensor.pad %y low[0, 0, 1, 1, 0] high[0, 0, 1, 1, 0] {
  ^bb0(%n: index, %c: index, %h: index, %v: index, %l: index):
    tensor.yield %zero : f32
  } : tensor<1x1x7x7x16xf32> to tensor<1x1x9x9x16xf32>
  %1 = rtask.operator @small(%padded, %w) : (tensor<1x1x9x9x16xf32>, tensor<1x1x3x3x16x16xf32>) -> tensor<1x1x7x7x16xf32>
  return %0, %1 : tensor<1x1x8x8x16xf32>, tensor<1x1x7x7x16xf32>
}
