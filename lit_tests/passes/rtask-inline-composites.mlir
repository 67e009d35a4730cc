// RUN: rammer-opt %s --rtask-inline-composites | filecheck %s
// RUN: rammer-opt %s --rtask-form-operators | filecheck %s --check-prefix=FORM

// CHECK-NOT: @toy.reshape_0
// CHECK: func.func private @toy_0(%arg0: tensor<4x1xf32>) -> tensor<1x4xf32> attributes {rtask.codegen = "toy"}
// CHECK-NEXT: %[[A:.*]] = tensor.collapse_shape %arg0
// CHECK-NEXT: %[[B:.*]] = tensor.expand_shape %[[A]]
// CHECK-NEXT: return %[[B]]
// CHECK-NOT: @toy.reshape_0

// A region is an rOperator, which nothing is fused with.
// FORM: func.func private @toy.reshape_0
// FORM: func.func private @toy_0
// FORM: func.func @main
// FORM: %[[R:.*]] = rtask.operator @toy_0(%arg0)
// FORM: %[[E:.*]] = rtask.operator @elementwise_0(%[[R]])
// FORM: return %[[R]], %[[E]]
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func private @toy.reshape_0(%x: tensor<4x1xf32>) -> tensor<4xf32> attributes {rtask.composite = "toy.reshape", rtask.reading = {kind = "reshape"}} {
  %0 = tensor.collapse_shape %x [[0, 1]] : tensor<4x1xf32> into tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @toy_0(%x: tensor<4x1xf32>) -> tensor<1x4xf32> attributes {rtask.codegen = "toy"} {
  %0 = call @toy.reshape_0(%x) : (tensor<4x1xf32>) -> tensor<4xf32>
  %1 = tensor.expand_shape %0 [[0, 1]] output_shape [1, 4] : tensor<4xf32> into tensor<1x4xf32>
  return %1 : tensor<1x4xf32>
}
func.func @main(%x: tensor<4x1xf32>) -> (tensor<1x4xf32>, tensor<1x4xf32>) {
  %0 = call @toy_0(%x) : (tensor<4x1xf32>) -> tensor<1x4xf32>
  %e = tensor.empty() : tensor<1x4xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%0 : tensor<1x4xf32>) outs(%e : tensor<1x4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %2 = math.exp %a : f32
    linalg.yield %2 : f32
  } -> tensor<1x4xf32>
  return %0, %1 : tensor<1x4xf32>, tensor<1x4xf32>
}
