// RUN: rammer-opt %s --split-input-file --linalg-generalize-named-ops --canonicalize --cse --rtask-form-operators | filecheck %s

// A matrix product takes in its start value, the bias and the activation.
// CHECK: func.func private @matmul_0(%[[X:.*]]: tensor<8x16xf32>, %[[W:.*]]: tensor<16x24xf32>, %[[B:.*]]: tensor<24xf32>) -> tensor<8x24xf32>
// CHECK: %[[PRODUCT:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[W]]
// CHECK: linalg.generic {{.*}} ins(%[[PRODUCT]], %[[B]]
// CHECK: arith.maximumf
// CHECK: func.func @main(%[[X:.*]]: tensor<8x16xf32>, %[[W:.*]]: tensor<16x24xf32>, %[[B:.*]]: tensor<24xf32>)
// CHECK-NEXT: %[[Y:.*]] = rtask.operator @matmul_0(%[[X]], %[[W]], %[[B]])
// CHECK-NEXT: return %[[Y]]
#all = affine_map<(i, j) -> (i, j)>
#column = affine_map<(i, j) -> (j)>
func.func @main(%x: tensor<8x16xf32>, %w: tensor<16x24xf32>, %b: tensor<24xf32>)
    -> tensor<8x24xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<8x24xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<8x24xf32>) -> tensor<8x24xf32>
  %product = linalg.matmul ins(%x, %w : tensor<8x16xf32>, tensor<16x24xf32>)
      outs(%init : tensor<8x24xf32>) -> tensor<8x24xf32>
  %y = linalg.generic {indexing_maps = [#all, #column, #all],
                       iterator_types = ["parallel", "parallel"]}
      ins(%product, %b : tensor<8x24xf32>, tensor<24xf32>) outs(%empty : tensor<8x24xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %s = arith.addf %p, %q : f32
    %r = arith.maximumf %s, %zero : f32
    linalg.yield %r : f32
  } -> tensor<8x24xf32>
  return %y : tensor<8x24xf32>
}

// -----

// Two contractions are two rOperators of one computation; a view is none.
// CHECK-COUNT-1: func.func private @matmul_
// CHECK: func.func @main(%[[X:.*]]: tensor<64x64xf32>, %[[W:.*]]: tensor<64x64xf32>)
// CHECK-NEXT: %[[ONE:.*]] = rtask.operator @matmul_0(%[[X]], %[[W]])
// CHECK-NEXT: %[[TWO:.*]] = rtask.operator @matmul_0(%[[ONE]], %[[W]])
// CHECK-NEXT: %[[FLAT:.*]] = tensor.collapse_shape %[[TWO]]
// CHECK-NEXT: return %[[FLAT]]
func.func @main(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<4096xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<64x64xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<64x64xf32>) -> tensor<64x64xf32>
  %one = linalg.matmul ins(%x, %w : tensor<64x64xf32>, tensor<64x64xf32>)
      outs(%init : tensor<64x64xf32>) -> tensor<64x64xf32>
  %two = linalg.matmul ins(%one, %w : tensor<64x64xf32>, tensor<64x64xf32>)
      outs(%init : tensor<64x64xf32>) -> tensor<64x64xf32>
  %flat = tensor.collapse_shape %two [[0, 1]] : tensor<64x64xf32> into tensor<4096xf32>
  return %flat : tensor<4096xf32>
}

// -----

// Softmax of rows: both reductions and what stands between them cut into rows, one rOperator.
// CHECK: func.func private @reduce_0(%{{.*}}: tensor<6x10xf32>) -> tensor<6x10xf32>
// CHECK: arith.maximumf
// CHECK: math.exp
// CHECK: arith.addf
// CHECK: arith.divf
// CHECK: func.func @main(%[[X:.*]]: tensor<6x10xf32>)
// CHECK-NEXT: %[[Y:.*]] = rtask.operator @reduce_0(%[[X]])
// CHECK-NEXT: return %[[Y]]
#all = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func @main(%x: tensor<6x10xf32>) -> tensor<6x10xf32> {
  %low = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %rows = tensor.empty() : tensor<6xf32>
  %empty = tensor.empty() : tensor<6x10xf32>
  %max_start = linalg.fill ins(%low : f32) outs(%rows : tensor<6xf32>) -> tensor<6xf32>
  %max = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<6x10xf32>) outs(%max_start : tensor<6xf32>) {
  ^bb0(%in: f32, %acc: f32):
    %m = arith.maximumf %in, %acc : f32
    linalg.yield %m : f32
  } -> tensor<6xf32>
  %exp = linalg.generic {indexing_maps = [#all, #row, #all],
                         iterator_types = ["parallel", "parallel"]}
      ins(%x, %max : tensor<6x10xf32>, tensor<6xf32>) outs(%empty : tensor<6x10xf32>) {
  ^bb0(%in: f32, %m: f32, %o: f32):
    %d = arith.subf %in, %m : f32
    %e = math.exp %d : f32
    linalg.yield %e : f32
  } -> tensor<6x10xf32>
  %sum_start = linalg.fill ins(%zero : f32) outs(%rows : tensor<6xf32>) -> tensor<6xf32>
  %sum = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
      ins(%exp : tensor<6x10xf32>) outs(%sum_start : tensor<6xf32>) {
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

// By default an operation joins those that are as parallel as it is; with `inputs`, as long as the
// rOperator reads no more than so many different tensors (F_max of Dali): %x is counted once, and an
// operation that would be one too many begins the next rOperator. `cost` fuses what is faster so.
// RUN: rammer-opt %S/Inputs/chain.mlir --rtask-form-operators | filecheck %s --check-prefix=WHOLE
// RUN: rammer-opt %S/Inputs/chain.mlir --rtask-form-operators="boundary=inputs inputs=0" | filecheck %s --check-prefix=WHOLE
// RUN: rammer-opt %S/Inputs/chain.mlir --rtask-form-operators="boundary=cost device=a100 num-veus=108" | filecheck %s --check-prefix=WHOLE
// RUN: rammer-opt %S/Inputs/chain.mlir --rtask-form-operators="boundary=inputs inputs=3" | filecheck %s --check-prefix=WHOLE
// RUN: rammer-opt %S/Inputs/chain.mlir --rtask-form-operators="boundary=inputs inputs=2" | filecheck %s --check-prefix=PAIR
// RUN: rammer-opt %S/Inputs/chain.mlir --rtask-form-operators="boundary=inputs inputs=1" | filecheck %s --check-prefix=SINGLE
// RUN: rammer-opt %S/Inputs/chain.mlir --rtask-form-operators="boundary=none" | filecheck %s --check-prefix=SINGLE
// WHOLE-COUNT-1: rtask.operator
// WHOLE-NOT: rtask.operator
// PAIR: %[[B:.*]] = rtask.operator @elementwise_0(%arg0, %arg1)
// PAIR-NEXT: %[[C:.*]] = rtask.operator @elementwise_1(%[[B]], %arg2)
// PAIR-NEXT: return %[[C]]
// SINGLE-COUNT-3: rtask.operator
// SINGLE-NOT: rtask.operator

// The loss of one label for each row: with gathers inside of rOperators, one of them.
// RUN: rammer-opt %S/Inputs/gather.mlir --rtask-form-operators | filecheck %s --check-prefix=APART
// RUN: rammer-opt %S/Inputs/gather.mlir --rtask-form-operators="boundary=inputs inputs=2" --rtask-tile="work=64 candidates=1" | filecheck %s --check-prefix=GATHER
// RUN: rammer-opt %S/Inputs/gather.mlir --rtask-form-operators="boundary=cost" | filecheck %s --check-prefix=FUSED
// APART-COUNT-2: rtask.operator
// FUSED-COUNT-1: rtask.operator
// FUSED-NOT: rtask.operator
// GATHER: rtask.kernel @elementwise_0_t0 rtasks(4)
// GATHER: reads 0[d0 * 32 +: 32, 0 +: 6]
// GATHER: reads 1[d0 * 32 +: 32]
// GATHER: writes 2[d0 * 32 +: 32]
// GATHER: func.func private @elementwise_0_t0(%[[ID:.*]]: index,
// GATHER: %[[POWERS:.*]] = linalg.generic
// GATHER: math.exp
// GATHER: linalg.generic
// GATHER: %[[ROW:.*]] = linalg.index 0
// GATHER: tensor.extract %[[POWERS]]{{.}}%[[ROW]], %
