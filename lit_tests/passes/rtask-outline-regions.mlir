// From the paper's figure 3 (d) to (e): regions are functions for a code generator, the composite is a function too.
// RUN: rammer-opt %S/Inputs/regions.mlir --plugin %S/Inputs/codegens.py --linalg-generalize-named-ops --canonicalize --cse --rtask-match-composites=table=toy --rtask-annotate-regions=codegens=toy --rtask-merge-regions --rtask-split-regions=operations=2 --rtask-outline-regions | filecheck %s
// RUN: rammer-opt %s --rtask-outline-regions | filecheck %s --check-prefix=EQUAL

// CHECK: func.func private @toy_0(%{{.*}}: tensor<1x4x8x8xf32>, %{{.*}}: tensor<4x4x1x1xf32>) -> tensor<1x4x8x8xf32> attributes {rtask.codegen = "toy"}
// CHECK: arith.mulf
// CHECK: func.func private @toy_1({{.*}}attributes {rtask.codegen = "toy"}
// CHECK: func.func private @toy_2({{.*}}attributes {rtask.codegen = "toy"}
// CHECK-NEXT: call @toy.conv_add_relu_0
// CHECK: func.func private @toy.conv_add_relu_0({{.*}}attributes {rtask.composite = "toy.conv_add_relu", rtask.reading = {after = ["add", "relu"], dilations = array<i64: 1, 1>, groups = 1 : i64, kernel = array<i64: 1, 1>, kind = "conv2d", layout = "NCHW", output_layout = "NFHW", pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>, weight_layout = "FCHW"}}
// CHECK-NOT: rtask.region
// CHECK: func.func @main
// CHECK: %[[FIRST:.*]] = call @toy_0(%arg0, %arg1)
// CHECK: %[[SECOND:.*]] = call @toy_1(%[[FIRST]], %arg1)
// CHECK: math.tanh
// CHECK: %[[LAST:.*]] = call @toy_2(%{{.*}}, %arg1, %arg2, %[[SECOND]])
// CHECK-NEXT: return %[[LAST]]

// Equal regions share a function, unless they are for different code generators; results and operands may be several.
// EQUAL: func.func private @toy_0(%arg0: tensor<4x1xf32>) -> (tensor<4xf32>, tensor<1x4xf32>) attributes {rtask.codegen = "toy"}
// EQUAL: func.func private @other_0(%arg0: tensor<4x1xf32>) -> (tensor<4xf32>, tensor<1x4xf32>) attributes {rtask.codegen = "other"}
// EQUAL-NOT: func.func private
// EQUAL: %[[A:.*]]:2 = call @toy_0(%arg0)
// EQUAL-NEXT: %[[B:.*]]:2 = call @toy_0(%arg1)
// EQUAL-NEXT: %[[C:.*]]:2 = call @other_0(%arg1)
// EQUAL-NEXT: return %[[A]]#0, %[[A]]#1, %[[B]]#0, %[[B]]#1, %[[C]]#0, %[[C]]#1
func.func @main(%x: tensor<4x1xf32>, %y: tensor<4x1xf32>) -> (tensor<4xf32>, tensor<1x4xf32>, tensor<4xf32>, tensor<1x4xf32>, tensor<4xf32>, tensor<1x4xf32>) {
  %0 = tensor.collapse_shape %x [[0, 1]] {rtask.region = {codegen = "toy", id = 0 : i64}} : tensor<4x1xf32> into tensor<4xf32>
  %2 = tensor.collapse_shape %y [[0, 1]] {rtask.region = {codegen = "toy", id = 1 : i64}} : tensor<4x1xf32> into tensor<4xf32>
  %1 = tensor.expand_shape %0 [[0, 1]] output_shape [1, 4] {rtask.region = {codegen = "toy", id = 0 : i64}} : tensor<4xf32> into tensor<1x4xf32>
  %3 = tensor.expand_shape %2 [[0, 1]] output_shape [1, 4] {rtask.region = {codegen = "toy", id = 1 : i64}} : tensor<4xf32> into tensor<1x4xf32>
  %4 = tensor.collapse_shape %y [[0, 1]] {rtask.region = {codegen = "other", id = 2 : i64}} : tensor<4x1xf32> into tensor<4xf32>
  %5 = tensor.expand_shape %4 [[0, 1]] output_shape [1, 4] {rtask.region = {codegen = "other", id = 2 : i64}} : tensor<4xf32> into tensor<1x4xf32>
  return %0, %1, %2, %3, %4, %5 : tensor<4xf32>, tensor<1x4xf32>, tensor<4xf32>, tensor<1x4xf32>, tensor<4xf32>, tensor<1x4xf32>
}
