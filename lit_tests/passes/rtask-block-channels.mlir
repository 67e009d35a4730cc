// RUN: rammer-opt %s --split-input-file --rtask-block-channels | filecheck %s

// Between two convolutions, 32 channels lie in two blocks of 16 innermost; so do the weights, whose
// reduced channels become a block and, as innermost reduction, its points.
// CHECK-DAG: #[[IMAGE:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d5, d2, d3)>
// CHECK-DAG: #[[FIRST:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d1, d5, d4)>
// CHECK-DAG: #[[OUT:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d3, d4)>
// CHECK-DAG: #[[IN:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d4, d2 + d5, d3 + d6, d7)>
// CHECK-DAG: #[[SECOND:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d4, d5, d6, d7, d1)>
// CHECK: func.func @main(%[[X:.*]]: tensor<1x3x6x6xf32>
// CHECK-SAME: %[[W1:[^:]*]]: tensor<2x3x16xf32> {rtask.constant = "w1", rtask.pack = [array<i64: 3, 2, 16>, array<i64: 1, 0, 2>]}
// CHECK-SAME: %[[W2:[^:]*]]: tensor<2x3x3x16x8xf32> {rtask.constant = "w2", rtask.pack = [array<i64: 2, 16, 3, 3, 8>, array<i64: 0, 2, 3, 1, 4>]}
// CHECK: linalg.generic {indexing_maps = [#[[IMAGE]], #[[FIRST]], #[[OUT]]]
// CHECK-SAME: ins(%[[X]], %[[W1]]
// CHECK: linalg.generic
// CHECK: tensor.pad {{.*}} low[0, 0, 1, 1, 0] high[0, 0, 1, 1, 0]
// CHECK: linalg.generic {indexing_maps = [#[[IN]], #[[SECOND]],
// CHECK: -> tensor<1x8x6x6xf32>
#image = affine_map<(n, f, h, w, c) -> (n, c, h, w)>
#pointwise = affine_map<(n, f, h, w, c) -> (c, f)>
#result = affine_map<(n, f, h, w, c) -> (n, f, h, w)>
#same = affine_map<(n, f, h, w) -> (n, f, h, w)>
#window = affine_map<(n, f, h, w, c, i, j) -> (n, c, h + i, w + j)>
#weight = affine_map<(n, f, h, w, c, i, j) -> (c, i, j, f)>
#sum = affine_map<(n, f, h, w, c, i, j) -> (n, f, h, w)>
func.func @main(%x: tensor<1x3x6x6xf32>, %w1: tensor<3x32xf32> {rtask.constant = "w1"},
                %w2: tensor<32x3x3x8xf32> {rtask.constant = "w2"}, %init: tensor<1x8x6x6xf32>)
    -> tensor<1x8x6x6xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<1x32x6x6xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(n, f, h, w) -> ()>, #same],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%zero : f32) outs(%0 : tensor<1x32x6x6xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  } -> tensor<1x32x6x6xf32>
  %2 = linalg.generic {indexing_maps = [#image, #pointwise, #result],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w1 : tensor<1x3x6x6xf32>, tensor<3x32xf32>) outs(%1 : tensor<1x32x6x6xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x32x6x6xf32>
  %3 = linalg.generic {indexing_maps = [#same, #same],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%2 : tensor<1x32x6x6xf32>) outs(%0 : tensor<1x32x6x6xf32>) {
  ^bb0(%a: f32, %b: f32):
    %m = arith.maximumf %a, %zero : f32
    linalg.yield %m : f32
  } -> tensor<1x32x6x6xf32>
  %4 = tensor.pad %3 low[0, 0, 1, 1] high[0, 0, 1, 1] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %zero : f32
  } : tensor<1x32x6x6xf32> to tensor<1x32x8x8xf32>
  %5 = linalg.generic {indexing_maps = [#window, #weight, #sum],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel",
                                         "reduction", "reduction", "reduction"]}
      ins(%4, %w2 : tensor<1x32x8x8xf32>, tensor<32x3x3x8xf32>) outs(%init : tensor<1x8x6x6xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x8x6x6xf32>
  return %5 : tensor<1x8x6x6xf32>
}

// -----

// What is only returned keeps its plain layout.
// CHECK: func.func @main
// CHECK-NOT: tensor<1x2x6x6x16xf32>
// CHECK: return {{.*}} : tensor<1x32x6x6xf32>
#image = affine_map<(n, f, h, w, c) -> (n, c, h, w)>
#pointwise = affine_map<(n, f, h, w, c) -> (c, f)>
#result = affine_map<(n, f, h, w, c) -> (n, f, h, w)>
func.func @main(%x: tensor<1x3x6x6xf32>, %w1: tensor<3x32xf32> {rtask.constant = "w1"})
    -> tensor<1x32x6x6xf32> {
  %init = tensor.empty() : tensor<1x32x6x6xf32>
  %0 = linalg.generic {indexing_maps = [#image, #pointwise, #result],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w1 : tensor<1x3x6x6xf32>, tensor<3x32xf32>) outs(%init : tensor<1x32x6x6xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x32x6x6xf32>
  return %0 : tensor<1x32x6x6xf32>
}

// -----

// An initial value that is computed, and not one scalar, keeps its plain layout, and what is added
// to it does.
// CHECK: func.func @main
// CHECK: arith.mulf %{{.*}}, %{{.*}} : f32
// CHECK-NOT: linalg.fill
// CHECK: return
#image = affine_map<(n, f, h, w, c) -> (n, c, h, w)>
#pointwise = affine_map<(n, f, h, w, c) -> (c, f)>
#result = affine_map<(n, f, h, w, c) -> (n, f, h, w)>
#scalar = affine_map<(n, f, h, w) -> ()>
#all = affine_map<(n, f, h, w) -> (n, f, h, w)>
func.func @main(%x: tensor<1x3x6x6xf32>, %w1: tensor<3x32xf32> {rtask.constant = "w1"},
                %w2: tensor<32x8xf32> {rtask.constant = "w2"}, %two: f32) -> tensor<1x8x6x6xf32> {
  %empty = tensor.empty() : tensor<1x32x6x6xf32>
  %init = linalg.generic {indexing_maps = [#scalar, #all],
                          iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%two : f32) outs(%empty : tensor<1x32x6x6xf32>) {
  ^bb0(%a: f32, %b: f32):
    %p = arith.mulf %a, %a : f32
    linalg.yield %p : f32
  } -> tensor<1x32x6x6xf32>
  %0 = linalg.generic {indexing_maps = [#image, #pointwise, #result],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w1 : tensor<1x3x6x6xf32>, tensor<3x32xf32>) outs(%init : tensor<1x32x6x6xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x32x6x6xf32>
  %last = tensor.empty() : tensor<1x8x6x6xf32>
  %1 = linalg.generic {indexing_maps = [#image, #pointwise, #result],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%0, %w2 : tensor<1x32x6x6xf32>, tensor<32x8xf32>) outs(%last : tensor<1x8x6x6xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x8x6x6xf32>
  return %1 : tensor<1x8x6x6xf32>
}

// -----

// What is concatenated with blocked channels is brought into blocks by a copy.
// CHECK-DAG: #[[PLAIN:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>
// CHECK-DAG: #[[POINTS:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d3, d4, d2)>
// CHECK: func.func @main(%[[X:.*]]: tensor<1x3x6x6xf32>, %[[Y:.*]]: tensor<1x16x6x6xf32>
// CHECK: %[[COPY:.*]] = linalg.generic {indexing_maps = [#[[PLAIN]], #[[POINTS]]]{{.*}} outs(%{{.*}} : tensor<1x1x6x6x16xf32>)
// CHECK: tensor.concat dim(1) %{{.*}}, %[[COPY]] : (tensor<1x2x6x6x16xf32>, tensor<1x1x6x6x16xf32>) -> tensor<1x3x6x6x16xf32>
// CHECK: return %{{.*}} : tensor<1x8x6x6xf32>
#image = affine_map<(n, f, h, w, c) -> (n, c, h, w)>
#pointwise = affine_map<(n, f, h, w, c) -> (c, f)>
#result = affine_map<(n, f, h, w, c) -> (n, f, h, w)>
#same = affine_map<(n, f, h, w) -> (n, f, h, w)>
func.func @main(%x: tensor<1x3x6x6xf32>, %y: tensor<1x16x6x6xf32>,
                %w1: tensor<3x32xf32> {rtask.constant = "w1"},
                %w2: tensor<48x8xf32> {rtask.constant = "w2"}, %init: tensor<1x8x6x6xf32>)
    -> tensor<1x8x6x6xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<1x32x6x6xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(n, f, h, w) -> ()>, #same],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%zero : f32) outs(%0 : tensor<1x32x6x6xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  } -> tensor<1x32x6x6xf32>
  %2 = linalg.generic {indexing_maps = [#image, #pointwise, #result],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w1 : tensor<1x3x6x6xf32>, tensor<3x32xf32>) outs(%1 : tensor<1x32x6x6xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x32x6x6xf32>
  %3 = tensor.concat dim(1) %2, %y : (tensor<1x32x6x6xf32>, tensor<1x16x6x6xf32>) -> tensor<1x48x6x6xf32>
  %4 = linalg.generic {indexing_maps = [#image, #pointwise, #result],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%3, %w2 : tensor<1x48x6x6xf32>, tensor<48x8xf32>) outs(%init : tensor<1x8x6x6xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x8x6x6xf32>
  return %4 : tensor<1x8x6x6xf32>
}

// -----

// The image of a depthwise convolution is copied into blocks, from windows of nine points on. The
// result has the plain layout.
// CHECK-LABEL: func.func @depthwise
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<1x2x6x6x16xf32>)
// CHECK: tensor.pad {{.*}} low[0, 0, 1, 1, 0] high[0, 0, 1, 1, 0]
// CHECK: linalg.generic {{.*}}"reduction"
// CHECK-SAME: ins(%{{.*}}, %{{.*}} : tensor<1x2x8x8x16xf32>, tensor<2x3x3x16xf32>)
// CHECK: return %{{.*}} : tensor<1x32x6x6xf32>
// CHECK-LABEL: func.func @small_window
// CHECK-NOT: tensor<1x2x6x6x16xf32>
#window = affine_map<(n, c, h, w, i, j) -> (n, c, h + i, w + j)>
#weight = affine_map<(n, c, h, w, i, j) -> (c, i, j)>
#sum = affine_map<(n, c, h, w, i, j) -> (n, c, h, w)>
func.func @depthwise(%x: tensor<1x32x6x6xf32>, %w: tensor<32x3x3xf32> {rtask.constant = "w"})
    -> tensor<1x32x6x6xf32> {
  %zero = arith.constant 0.0 : f32
  %padded = tensor.pad %x low[0, 0, 1, 1] high[0, 0, 1, 1] {
  ^bb0(%a: index, %b: index, %c: index, %d: index):
    tensor.yield %zero : f32
  } : tensor<1x32x6x6xf32> to tensor<1x32x8x8xf32>
  %empty = tensor.empty() : tensor<1x32x6x6xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x32x6x6xf32>) -> tensor<1x32x6x6xf32>
  %0 = linalg.generic {indexing_maps = [#window, #weight, #sum],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%padded, %w : tensor<1x32x8x8xf32>, tensor<32x3x3xf32>)
      outs(%init : tensor<1x32x6x6xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<1x32x6x6xf32>
  return %0 : tensor<1x32x6x6xf32>
}

// -----

#window = affine_map<(n, c, h, w, i, j) -> (n, c, h + i, w + j)>
#weight = affine_map<(n, c, h, w, i, j) -> (c, i, j)>
#sum = affine_map<(n, c, h, w, i, j) -> (n, c, h, w)>
func.func @small_window(%x: tensor<1x32x7x7xf32>, %w: tensor<32x2x2xf32> {rtask.constant = "w"})
    -> tensor<1x32x6x6xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<1x32x6x6xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x32x6x6xf32>) -> tensor<1x32x6x6xf32>
  %0 = linalg.generic {indexing_maps = [#window, #weight, #sum],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%x, %w : tensor<1x32x7x7xf32>, tensor<32x2x2xf32>)
      outs(%init : tensor<1x32x6x6xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<1x32x6x6xf32>
  return %0 : tensor<1x32x6x6xf32>
}
