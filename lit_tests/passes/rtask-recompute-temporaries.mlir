// RUN: rammer-opt %s --rtask-recompute-temporaries | filecheck %s
// RUN: rammer-opt %s --rtask-recompute-temporaries=growth=1 | filecheck %s --check-prefix=KEPT
// RUN: rammer-opt %s --pass-pipeline="builtin.module(rtask-recompute-temporaries,func.func(linalg-fuse-elementwise-ops))" | filecheck %s --check-prefix=FUSED
// RUN: not rammer-opt %s --rtask-recompute-temporaries=growth=0 2>&1 | filecheck %s --check-prefix=REFUSED
// REFUSED: growth: expected at least 1, found 0

// The exponential is read by the sum and by the quotient: each gets its own. The sum is a reduction,
// and stays the one that it is.
// CHECK-LABEL: func.func private @softmax
// CHECK: %[[A:.*]] = linalg.generic
// CHECK: math.exp
// CHECK: %[[B:.*]] = linalg.generic
// CHECK: math.exp
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}} ins(%[[FIRST:.*]] : tensor<6x10xf32>)
// CHECK: arith.addf
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[SECOND:.*]], %[[SUM]] :
// CHECK: arith.divf
// CHECK-NOT: linalg.generic

// Without room for a clone, nothing changes.
// KEPT: func.func private @softmax
// KEPT-COUNT-1: math.exp
// KEPT-NOT: math.exp

// Fused, the exponential is no operation any more.
// FUSED: func.func private @softmax
// FUSED-NOT: linalg.generic {{.*}}ins(%{{.*}} : tensor<6x10xf32>) outs(%{{.*}} : tensor<6x10xf32>)
// FUSED: math.exp
// FUSED-NEXT: arith.addf
// FUSED: math.exp
// FUSED-NEXT: arith.divf

#all = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func private @softmax(%x: tensor<6x10xf32>) -> tensor<6x10xf32> {
  %zero = arith.constant 0.0 : f32
  %rows = tensor.empty() : tensor<6xf32>
  %empty = tensor.empty() : tensor<6x10xf32>
  %exp = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<6x10xf32>) outs(%empty : tensor<6x10xf32>) {
  ^bb0(%in: f32, %o: f32):
    %e = math.exp %in : f32
    linalg.yield %e : f32
  } -> tensor<6x10xf32>
  %start = linalg.fill ins(%zero : f32) outs(%rows : tensor<6xf32>) -> tensor<6xf32>
  %sum = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
      ins(%exp : tensor<6x10xf32>) outs(%start : tensor<6xf32>) {
  ^bb0(%in: f32, %acc: f32):
    %s = arith.addf %in, %acc : f32
    linalg.yield %s : f32
  } -> tensor<6xf32>
  %y = linalg.generic {indexing_maps = [#all, #row, #all],
                       iterator_types = ["parallel", "parallel"]}
      ins(%exp, %sum : tensor<6x10xf32>, tensor<6xf32>) outs(%empty : tensor<6x10xf32>) {
  ^bb0(%e: f32, %s: f32, %o: f32):
    %q = arith.divf %e, %s : f32
    linalg.yield %q : f32
  } -> tensor<6x10xf32>
  return %y : tensor<6x10xf32>
}

func.func @main(%x: tensor<6x10xf32>) -> tensor<6x10xf32> {
  %y = rtask.operator @softmax(%x) : (tensor<6x10xf32>) -> tensor<6x10xf32>
  return %y : tensor<6x10xf32>
}
