// RUN: rammer-opt %s --split-input-file --rtask-pad-channels | filecheck %s

// Twelve channels become sixteen, computed by weights of zeros; the second convolution has zeros for
// them. What sigmoid makes of zero is finite.
// CHECK: func.func @main(%{{.*}}: tensor<1x3x6x6xf32>
// CHECK-SAME: tensor<3x16xf32> {rtask.constant = "w1", rtask.parts = [{low = array<i64: 0, 0>, rtask.constant = "w1", shape = array<i64: 3, 12>, size = array<i64: 3, 16>}]}
// CHECK-SAME: tensor<16x8xf32> {rtask.constant = "w2", rtask.parts = [{low = array<i64: 0, 0>, rtask.constant = "w2", shape = array<i64: 12, 8>, size = array<i64: 16, 8>}]}
// CHECK: linalg.generic {{.*}} ins(%arg0, %arg2 : tensor<1x3x6x6xf32>, tensor<3x16xf32>) outs(%{{.*}} : tensor<1x16x6x6xf32>)
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<1x16x6x6xf32>) outs(%{{.*}} : tensor<1x16x6x6xf32>)
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %arg3 : tensor<1x16x6x6xf32>, tensor<16x8xf32>) outs(%arg1 : tensor<1x8x6x6xf32>)
// CHECK-NOT: tensor.extract_slice
// CHECK: return %{{.*}} : tensor<1x8x6x6xf32>
#image = affine_map<(n, f, h, w, c) -> (n, c, h, w)>
#pointwise = affine_map<(n, f, h, w, c) -> (c, f)>
#result = affine_map<(n, f, h, w, c) -> (n, f, h, w)>
#same = affine_map<(n, f, h, w) -> (n, f, h, w)>
func.func @main(%x: tensor<1x3x6x6xf32>, %w1: tensor<3x12xf32> {rtask.constant = "w1"},
                %w2: tensor<12x8xf32> {rtask.constant = "w2"}, %init: tensor<1x8x6x6xf32>)
    -> tensor<1x8x6x6xf32> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %0 = tensor.empty() : tensor<1x12x6x6xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(n, f, h, w) -> ()>, #same],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%zero : f32) outs(%0 : tensor<1x12x6x6xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  } -> tensor<1x12x6x6xf32>
  %2 = linalg.generic {indexing_maps = [#image, #pointwise, #result],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w1 : tensor<1x3x6x6xf32>, tensor<3x12xf32>) outs(%1 : tensor<1x12x6x6xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x12x6x6xf32>
  %3 = linalg.generic {indexing_maps = [#same, #same],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%2 : tensor<1x12x6x6xf32>) outs(%0 : tensor<1x12x6x6xf32>) {
  ^bb0(%a: f32, %b: f32):
    %n = arith.negf %a : f32
    %e = math.exp %n : f32
    %d = arith.addf %e, %one : f32
    %m = arith.divf %one, %d : f32
    linalg.yield %m : f32
  } -> tensor<1x12x6x6xf32>
  %5 = linalg.generic {indexing_maps = [#image, #pointwise, #result],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%3, %w2 : tensor<1x12x6x6xf32>, tensor<12x8xf32>) outs(%init : tensor<1x8x6x6xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x8x6x6xf32>
  return %5 : tensor<1x8x6x6xf32>
}

// -----

// One over zero is not finite: nothing is padded.
// CHECK: func.func @main
// CHECK-NOT: 1x16x6x6
// CHECK: return %{{.*}} : tensor<1x8x6x6xf32>
#image = affine_map<(n, f, h, w, c) -> (n, c, h, w)>
#pointwise = affine_map<(n, f, h, w, c) -> (c, f)>
#result = affine_map<(n, f, h, w, c) -> (n, f, h, w)>
#same = affine_map<(n, f, h, w) -> (n, f, h, w)>
func.func @main(%x: tensor<1x3x6x6xf32>, %w1: tensor<3x12xf32> {rtask.constant = "w1"},
                %w2: tensor<12x8xf32> {rtask.constant = "w2"}, %init: tensor<1x8x6x6xf32>)
    -> tensor<1x8x6x6xf32> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %0 = tensor.empty() : tensor<1x12x6x6xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(n, f, h, w) -> ()>, #same],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%zero : f32) outs(%0 : tensor<1x12x6x6xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  } -> tensor<1x12x6x6xf32>
  %2 = linalg.generic {indexing_maps = [#image, #pointwise, #result],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w1 : tensor<1x3x6x6xf32>, tensor<3x12xf32>) outs(%1 : tensor<1x12x6x6xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x12x6x6xf32>
  %3 = linalg.generic {indexing_maps = [#same, #same],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%2 : tensor<1x12x6x6xf32>) outs(%0 : tensor<1x12x6x6xf32>) {
  ^bb0(%a: f32, %b: f32):
    %m = arith.divf %one, %a : f32
    linalg.yield %m : f32
  } -> tensor<1x12x6x6xf32>
  %5 = linalg.generic {indexing_maps = [#image, #pointwise, #result],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%3, %w2 : tensor<1x12x6x6xf32>, tensor<12x8xf32>) outs(%init : tensor<1x8x6x6xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x8x6x6xf32>
  return %5 : tensor<1x8x6x6xf32>
}

// -----

// A concatenation of two runs of twelve channels and of a plain value with twelve: the latter gets
// zeros behind its channels, the weights of what follows get zeros behind each run. The average
// divides by numbers that are known.
// CHECK: func.func @main
// CHECK-SAME: tensor<48x8xf32> {rtask.constant = "w2", rtask.pack = [array<i64: 48, 8>], rtask.parts = [{low = array<i64: 0, 0, 0>, rtask.constant = "w2", shape = array<i64: 3, 12, 8>, size = array<i64: 3, 16, 8>}]}
// CHECK: %[[PLAIN:.*]] = tensor.pad %arg1 low[0, 0, 0, 0] high[0, 4, 0, 0]
// CHECK: tensor.concat dim(1) %{{.*}}, %{{.*}}, %[[PLAIN]] : (tensor<1x16x6x6xf32>, tensor<1x16x6x6xf32>, tensor<1x16x6x6xf32>) -> tensor<1x48x6x6xf32>
// CHECK-NOT: tensor.extract_slice
// CHECK: return %{{.*}} : tensor<1x8x6x6xf32>
#image = affine_map<(n, f, h, w, c) -> (n, c, h, w)>
#pointwise = affine_map<(n, f, h, w, c) -> (c, f)>
#result = affine_map<(n, f, h, w, c) -> (n, f, h, w)>
#same = affine_map<(n, f, h, w) -> (n, f, h, w)>
#row = affine_map<(n, f, h, w) -> (h)>
func.func @main(%x: tensor<1x3x6x6xf32>, %y: tensor<1x12x6x6xf32>,
                %w1: tensor<3x12xf32> {rtask.constant = "w1"},
                %counts: tensor<6xf32> {rtask.constant = "c", rtask.value = dense<[2.0, 3.0, 3.0, 3.0, 3.0, 2.0]> : tensor<6xf32>},
                %w2: tensor<36x8xf32> {rtask.constant = "w2"}, %init: tensor<1x8x6x6xf32>)
    -> tensor<1x8x6x6xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<1x12x6x6xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(n, f, h, w) -> ()>, #same],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%zero : f32) outs(%0 : tensor<1x12x6x6xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  } -> tensor<1x12x6x6xf32>
  %2 = linalg.generic {indexing_maps = [#image, #pointwise, #result],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w1 : tensor<1x3x6x6xf32>, tensor<3x12xf32>) outs(%1 : tensor<1x12x6x6xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x12x6x6xf32>
  %3 = linalg.generic {indexing_maps = [#same, #row, #same],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%2, %counts : tensor<1x12x6x6xf32>, tensor<6xf32>) outs(%0 : tensor<1x12x6x6xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.divf %a, %b : f32
    linalg.yield %d : f32
  } -> tensor<1x12x6x6xf32>
  %4 = tensor.concat dim(1) %2, %3, %y : (tensor<1x12x6x6xf32>, tensor<1x12x6x6xf32>, tensor<1x12x6x6xf32>) -> tensor<1x36x6x6xf32>
  %5 = linalg.generic {indexing_maps = [#image, #pointwise, #result],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%4, %w2 : tensor<1x36x6x6xf32>, tensor<36x8xf32>) outs(%init : tensor<1x8x6x6xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x8x6x6xf32>
  return %5 : tensor<1x8x6x6xf32>
}
