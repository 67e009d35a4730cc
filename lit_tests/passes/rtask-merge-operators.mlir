// RUN: rammer-opt %s --pass-pipeline="builtin.module(rtask-merge-operators{growth=2.0},canonicalize)" | filecheck %s
// RUN: rammer-opt %s --rtask-merge-operators | filecheck %s --check-prefix=EQUAL
// RUN: not rammer-opt %s --rtask-merge-operators=growth=0.5 2>&1 | filecheck %s --check-prefix=SENSELESS
// RUN: rammer-opt %s --linalg-generalize-named-ops --rtask-merge-operators="growth=2.0 device=v100 num-veus=1" | filecheck %s --check-prefix=ONE
// RUN: rammer-opt %s --linalg-generalize-named-ops --rtask-merge-operators="growth=1.4 device=v100 num-veus=1" | filecheck %s --check-prefix=BOUND

// As one they are faster: there is one rTask less to start. But the arithmetic may not grow so much.
// ONE:         rtask.parts
// BOUND-NOT:   rtask.parts

// A window of one element lies in the middle of the one of three by three: it gets zeros around it.
// CHECK:      func.func @main(%[[X:.*]]: tensor<1x2x4x4xf32>, %[[W:.*]]: tensor<8x2x3x3xf32> {rtask.constant = "w1+w3", rtask.parts =
// CHECK-SAME:   [{low = array<i64: 0, 0, 1, 1>, rtask.constant = "w1", shape = array<i64: 3, 2, 1, 1>, size = array<i64: 3, 2, 3, 3>},
// CHECK-SAME:    {low = array<i64: 0, 0, 0, 0>, rtask.constant = "w3", shape = array<i64: 5, 2, 3, 3>, size = array<i64: 5, 2, 3, 3>}]})
// CHECK:      %[[PADDED:.*]] = tensor.pad %[[X]] low[0, 0, 1, 1] high[0, 0, 1, 1]
// CHECK:      %[[ALL:.*]] = linalg.generic {{.*}} ins(%[[PADDED]], %[[W]] :
// CHECK-DAG:  tensor.extract_slice %[[ALL]][0, 0, 0, 0] [1, 3, 4, 4]
// CHECK-DAG:  tensor.extract_slice %[[ALL]][0, 3, 0, 0] [1, 5, 4, 4]
// CHECK-NOT:  linalg.generic

// EQUAL-NOT:   rtask.parts
// SENSELESS:   growth: expected at least 1 and finite, found 0.5
func.func @main(%x: tensor<1x2x4x4xf32>, %w1: tensor<3x2x1x1xf32> {rtask.constant = "w1"},
    %w3: tensor<5x2x3x3xf32> {rtask.constant = "w3"}) -> (tensor<1x3x4x4xf32>, tensor<1x5x4x4xf32>) {
  %zero = arith.constant 0.0 : f32
  %e1 = tensor.empty() : tensor<1x3x4x4xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xf32>
  %y1 = linalg.generic {indexing_maps = [
      affine_map<(n, f, h, w, c, i, j) -> (n, c, h + i, w + j)>,
      affine_map<(n, f, h, w, c, i, j) -> (f, c, i, j)>,
      affine_map<(n, f, h, w, c, i, j) -> (n, f, h, w)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%x, %w1 : tensor<1x2x4x4xf32>, tensor<3x2x1x1xf32>) outs(%f1 : tensor<1x3x4x4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x3x4x4xf32>
  %padded = tensor.pad %x low[0, 0, 1, 1] high[0, 0, 1, 1] {
  ^bb0(%n: index, %c: index, %h: index, %w: index):
    tensor.yield %zero : f32
  } : tensor<1x2x4x4xf32> to tensor<1x2x6x6xf32>
  %e3 = tensor.empty() : tensor<1x5x4x4xf32>
  %f3 = linalg.fill ins(%zero : f32) outs(%e3 : tensor<1x5x4x4xf32>) -> tensor<1x5x4x4xf32>
  %y3 = linalg.generic {indexing_maps = [
      affine_map<(n, f, h, w, c, i, j) -> (n, c, h + i, w + j)>,
      affine_map<(n, f, h, w, c, i, j) -> (f, c, i, j)>,
      affine_map<(n, f, h, w, c, i, j) -> (n, f, h, w)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%padded, %w3 : tensor<1x2x6x6xf32>, tensor<5x2x3x3xf32>) outs(%f3 : tensor<1x5x4x4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x5x4x4xf32>
  return %y1, %y3 : tensor<1x3x4x4xf32>, tensor<1x5x4x4xf32>
}
