// RUN: rammer-opt %s --split-input-file --rtask-decompose-pad | filecheck %s
// RUN: rammer-opt %s --split-input-file "--rtask-decompose-pad=small=496" | filecheck %s --check-prefix=SMALL

// The innermost dimension first: strips left and right of the image, then above and below.
// CHECK: func.func private @border_0()
// CHECK: linalg.fill ins(%[[PADDING:.*]] : f32) outs(%{{.*}} : tensor<2x5x1xf32>)
// CHECK: func.func @main(%[[X:.*]]: tensor<2x5x6xf32>)
// CHECK: %[[B:.*]]:4 = rtask.operator @border_0() : () -> (tensor<2x5x1xf32>, tensor<2x5x1xf32>, tensor<2x1x8xf32>, tensor<2x2x8xf32>)
// CHECK-NEXT: %[[WIDE:.*]] = tensor.concat dim(2) %[[B]]#0, %[[X]], %[[B]]#1
// CHECK-NEXT: %[[Y:.*]] = tensor.concat dim(1) %[[B]]#2, %[[WIDE]], %[[B]]#3
// CHECK-NEXT: return %[[Y]] : tensor<2x8x8xf32>

// The argument and its padded copy have 60 and 128 elements, more than 496 bytes.
// SMALL: func.func private @border_0()
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

// -----

// A small argument, here reshaped, is copied into the middle of a filled tensor; a computed tensor is concatenated.
// CHECK: func.func private @border_0()
// CHECK-NOT: tensor.insert_slice
// SMALL: func.func private @pad_0(%[[X:.*]]: tensor<4x4xf32>) -> tensor<6x7xf32>
// SMALL: %[[FILLED:.*]] = linalg.fill ins(%{{.*}} : f32) outs(%{{.*}} : tensor<6x7xf32>)
// SMALL: %[[Y:.*]] = tensor.insert_slice %[[X]] into %[[FILLED]][1, 1] [4, 4] [1, 1]
// SMALL: return %[[Y]]
// SMALL: func.func private @border_0()
// SMALL: func.func @main(%[[X:.*]]: tensor<16xf32>)
// SMALL: %[[WIDE:.*]] = tensor.expand_shape %[[X]]
// SMALL: %[[Y:.*]] = rtask.operator @pad_0(%[[WIDE]]) : (tensor<4x4xf32>) -> tensor<6x7xf32>
// SMALL: %[[E:.*]] = math.exp
// SMALL: tensor.concat dim(1) %{{.*}}, %[[E]]
func.func @main(%x: tensor<16xf32>) -> (tensor<6x7xf32>, tensor<4x6xf32>) {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.expand_shape %x [[0, 1]] output_shape [4, 4] : tensor<16xf32> into tensor<4x4xf32>
  %1 = tensor.pad %0 low[1, 1] high[1, 2] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f32
  } : tensor<4x4xf32> to tensor<6x7xf32>
  %2 = math.exp %0 : tensor<4x4xf32>
  %3 = tensor.pad %2 low[0, 1] high[0, 1] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f32
  } : tensor<4x4xf32> to tensor<4x6xf32>
  return %1, %3 : tensor<6x7xf32>, tensor<4x6xf32>
}
