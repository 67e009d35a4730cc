// The chains after two products of one input capture a scalar that is computed after the products:
// only the products are merged, and the IR stays valid.
// RUN: rammer-opt --rtask-legalize --rtask-externalize-constants --rtask-merge-operators %s | filecheck %s

// CHECK-LABEL: func.func @main
// CHECK: math.exp
// CHECK: arith.mulf
// CHECK: arith.mulf
// CHECK: return
func.func @main(%x: tensor<16x2xf32>, %u: tensor<f32>) -> (tensor<16x2xf32>, tensor<16x2xf32>) {
  %w = arith.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %v = arith.constant dense<[[5.0, 6.0], [7.0, 8.0]]> : tensor<2x2xf32>
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<16x2xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<16x2xf32>) -> tensor<16x2xf32>
  %m = linalg.matmul ins(%x, %w : tensor<16x2xf32>, tensor<2x2xf32>)
    outs(%f : tensor<16x2xf32>) -> tensor<16x2xf32>
  %n = linalg.matmul ins(%x, %v : tensor<16x2xf32>, tensor<2x2xf32>)
    outs(%f : tensor<16x2xf32>) -> tensor<16x2xf32>
  %e0 = tensor.empty() : tensor<f32>
  %s = linalg.map { math.exp } ins(%u : tensor<f32>) outs(%e0 : tensor<f32>)
  %rm = linalg.generic {
    indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> ()>,
                     affine_map<(a, b) -> (a, b)>],
    iterator_types = ["parallel", "parallel"]}
    ins(%m, %s : tensor<16x2xf32>, tensor<f32>) outs(%e : tensor<16x2xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %c = arith.mulf %a, %b : f32
    linalg.yield %c : f32
  } -> tensor<16x2xf32>
  %rn = linalg.generic {
    indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> ()>,
                     affine_map<(a, b) -> (a, b)>],
    iterator_types = ["parallel", "parallel"]}
    ins(%n, %s : tensor<16x2xf32>, tensor<f32>) outs(%e : tensor<16x2xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %c = arith.mulf %a, %b : f32
    linalg.yield %c : f32
  } -> tensor<16x2xf32>
  return %rm, %rn : tensor<16x2xf32>, tensor<16x2xf32>
}
