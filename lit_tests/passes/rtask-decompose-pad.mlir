// RUN: rammer-opt %s --split-input-file --rtask-decompose-pad | filecheck %s

// The innermost dimension first: strips left and right of the image, then above and below.
// CHECK: func.func private @border_0()
// CHECK: linalg.fill ins(%[[PADDING:.*]] : f32) outs(%{{.*}} : tensor<2x5x1xf32>)
// CHECK: func.func @main(%[[X:.*]]: tensor<2x5x6xf32>)
// CHECK: %[[B:.*]]:4 = rtask.operator @border_0() : () -> (tensor<2x5x1xf32>, tensor<2x5x1xf32>, tensor<2x1x8xf32>, tensor<2x2x8xf32>)
// CHECK-NEXT: %[[WIDE:.*]] = tensor.concat dim(2) %[[B]]#0, %[[X]], %[[B]]#1
// CHECK-NEXT: %[[Y:.*]] = tensor.concat dim(1) %[[B]]#2, %[[WIDE]], %[[B]]#3
// CHECK-NEXT: return %[[Y]] : tensor<2x8x8xf32>
func.func @main(%x: tensor<2x5x6xf32>) -> tensor<2x8x8xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.pad %x low[0, 1, 1] high[0, 2, 1] {
  ^bb0(%i: index, %j: index, %k: index):
    tensor.yield %zero : f32
  } : tensor<2x5x6xf32> to tensor<2x8x8xf32>
  return %0 : tensor<2x8x8xf32>
}

// -----

// Nothing to pad: nothing is left. What pads by a computed value stays.
// CHECK: func.func @main(%[[X:.*]]: tensor<4xf32>, %[[P:.*]]: f32)
// CHECK: %[[Y:.*]] = tensor.pad %[[X]] low[1] high[0]
// CHECK: return %[[X]], %[[Y]]
func.func @main(%x: tensor<4xf32>, %p: f32) -> (tensor<4xf32>, tensor<5xf32>) {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.pad %x nofold low[0] high[0] {
  ^bb0(%i: index):
    tensor.yield %zero : f32
  } : tensor<4xf32> to tensor<4xf32>
  %1 = tensor.pad %x low[1] high[0] {
  ^bb0(%i: index):
    tensor.yield %p : f32
  } : tensor<4xf32> to tensor<5xf32>
  return %0, %1 : tensor<4xf32>, tensor<5xf32>
}
