// RUN: rammer-opt %s --split-input-file --rtask-insert-copies | filecheck %s

// An input has a place of its own and must be copied into a concatenation or a result; what an
// rOperator computes is computed there.
// CHECK: func.func private @copy_0
// CHECK: func.func @main(%[[X:.*]]: tensor<4x8xf32>)
// CHECK-NEXT: %[[R:.*]] = rtask.operator @relu(%[[X]])
// CHECK-NEXT: %[[COPY:.*]] = rtask.operator @copy_0(%[[X]])
// CHECK-NEXT: %[[Y:.*]] = tensor.concat dim(0) %[[COPY]], %[[R]]
// CHECK-NEXT: %[[Z:.*]] = rtask.operator @copy_0(%[[X]])
// CHECK-NEXT: return %[[Y]], %[[Z]]
func.func private @relu(%a: tensor<4x8xf32>) -> tensor<4x8xf32> {
  return %a : tensor<4x8xf32>
}
func.func @main(%x: tensor<4x8xf32>) -> (tensor<8x8xf32>, tensor<4x8xf32>) {
  %r = rtask.operator @relu(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %c = tensor.concat dim(0) %x, %r : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  return %c, %x : tensor<8x8xf32>, tensor<4x8xf32>
}

// -----

// One value cannot be in two results at once; a constant is made where it is wanted.
// CHECK: func.func @main(%[[X:.*]]: tensor<4xf32>)
// CHECK: %[[R:.*]] = rtask.operator @relu(%[[X]])
// CHECK: %[[COPY:.*]] = rtask.operator @copy_0(%[[R]])
// CHECK: %[[CONSTANT:.*]] = rtask.operator @constant_0()
// CHECK: return %[[R]], %[[COPY]], %[[CONSTANT]]
func.func private @relu(%a: tensor<4xf32>) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %one = arith.constant dense<1.0> : tensor<4xf32>
  %r = rtask.operator @relu(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %r, %r, %one : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
