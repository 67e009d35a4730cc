// Equal rOperators on tensors are merged and dead ones removed by MLIR's passes, until they have places; on memrefs, an allocation that an rOperator touches is not dead.
// RUN: rammer-opt %s --split-input-file --cse --canonicalize | filecheck %s

// CHECK-LABEL: func.func @pure
// CHECK-NEXT: %[[A:.*]] = rtask.operator @k(%arg0)
// CHECK-NEXT: return %[[A]], %[[A]]
func.func private @k(%a: tensor<4xf32>) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
func.func @pure(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = rtask.operator @k(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = rtask.operator @k(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %dead = rtask.operator @k(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// CHECK-LABEL: func.func @placed
// CHECK-NEXT: %[[A:.*]] = rtask.operator @k(%arg0)
// CHECK-NEXT: %[[B:.*]] = rtask.operator @k(%arg0)
// CHECK-NEXT: return %[[A]], %[[B]]
func.func private @k(%a: tensor<4xf32>) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
func.func @placed(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {rtask.placed} {
  %0 = rtask.operator @k(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = rtask.operator @k(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// CHECK-LABEL: func.func @buffers
// CHECK-NEXT: %[[A:.*]] = memref.alloc
// CHECK-NEXT: rtask.operator 0 @k(%arg0, %[[A]])
// CHECK-NEXT: rtask.operator 1 @k(%[[A]], %arg1)
func.func private @k(%id: index, %a: memref<4xf32>, %b: memref<4xf32>) {
  return
}
func.func @buffers(%a: memref<4xf32>, %b: memref<4xf32>) {
  %0 = memref.alloc() : memref<4xf32>
  %dead = memref.alloc() : memref<4xf32>
  rtask.operator 0 @k(%a, %0) : (memref<4xf32>, memref<4xf32>) -> ()
  rtask.operator 1 @k(%0, %b) : (memref<4xf32>, memref<4xf32>) -> ()
  return
}
