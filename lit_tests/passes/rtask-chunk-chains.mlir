// RUN: rammer-opt %s --split-input-file --rtask-chunk-chains=cache=512 | filecheck %s
// RUN: rammer-opt %s --split-input-file --rtask-chunk-chains | filecheck %s --check-prefix=FITS
// RUN: not rammer-opt %s --split-input-file --rtask-chunk-chains=cache=0 2>&1 | filecheck %s --check-prefix=NONE

// NONE: rtask-chunk-chains: cache: expected at least 1, found 0
// FITS-NOT: tensor.concat

// An attention of four heads is computed head by head: scores, weights and results of a head follow
// one another, and are marked as a chunk.
// CHECK-LABEL: func.func @heads
// CHECK-COUNT-2: rtask.chunk = array<i64: 0, 0>
// CHECK: rtask.operator @values_part_0{{.*}}rtask.chunk = array<i64: 0, 0>
// CHECK-COUNT-3: rtask.chunk = array<i64: 0, 1>
// CHECK-COUNT-3: rtask.chunk = array<i64: 0, 2>
// CHECK-COUNT-2: rtask.chunk = array<i64: 0, 3>
// CHECK: rtask.operator @values_part_0{{.*}}rtask.chunk = array<i64: 0, 3>
// CHECK: tensor.concat dim(0)
#a = affine_map<(h, i, j, k) -> (h, i, k)>
#b = affine_map<(h, i, j, k) -> (h, k, j)>
#c = affine_map<(h, i, j, k) -> (h, i, j)>
#i = affine_map<(h, i, j) -> (h, i, j)>
#n = affine_map<(h, i, j) -> ()>
func.func private @scores(%x: tensor<4x8x16xf32>, %y: tensor<4x16x8xf32>) -> tensor<4x8x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8x8xf32>
  %f = linalg.generic {indexing_maps = [#n, #i], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%zero : f32) outs(%e : tensor<4x8x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<4x8x8xf32>
  %r = linalg.generic {indexing_maps = [#a, #b, #c],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %y : tensor<4x8x16xf32>, tensor<4x16x8xf32>) outs(%f : tensor<4x8x8xf32>) {
  ^bb0(%p: f32, %q: f32, %s: f32):
    %m = arith.mulf %p, %q : f32
    %t = arith.addf %s, %m : f32
    linalg.yield %t : f32
  } -> tensor<4x8x8xf32>
  return %r : tensor<4x8x8xf32>
}
func.func private @weights(%x: tensor<4x8x8xf32>) -> tensor<4x8x8xf32> {
  %e = tensor.empty() : tensor<4x8x8xf32>
  %r = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<4x8x8xf32>) outs(%e : tensor<4x8x8xf32>) {
  ^bb0(%p: f32, %s: f32):
    %m = math.exp %p : f32
    linalg.yield %m : f32
  } -> tensor<4x8x8xf32>
  return %r : tensor<4x8x8xf32>
}
func.func private @values(%x: tensor<4x8x8xf32>, %y: tensor<4x8x16xf32>) -> tensor<4x8x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8x16xf32>
  %f = linalg.generic {indexing_maps = [#n, #i], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%zero : f32) outs(%e : tensor<4x8x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<4x8x16xf32>
  %r = linalg.generic {indexing_maps = [#a, #b, #c],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %y : tensor<4x8x8xf32>, tensor<4x8x16xf32>) outs(%f : tensor<4x8x16xf32>) {
  ^bb0(%p: f32, %q: f32, %s: f32):
    %m = arith.mulf %p, %q : f32
    %t = arith.addf %s, %m : f32
    linalg.yield %t : f32
  } -> tensor<4x8x16xf32>
  return %r : tensor<4x8x16xf32>
}
func.func @heads(%q: tensor<4x8x16xf32>, %k: tensor<4x16x8xf32>, %v: tensor<4x8x16xf32>) -> tensor<4x8x16xf32> {
  %s = rtask.operator @scores(%q, %k) : (tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> tensor<4x8x8xf32>
  %w = rtask.operator @weights(%s) : (tensor<4x8x8xf32>) -> tensor<4x8x8xf32>
  %y = rtask.operator @values(%w, %v) : (tensor<4x8x8xf32>, tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
  return %y : tensor<4x8x16xf32>
}
