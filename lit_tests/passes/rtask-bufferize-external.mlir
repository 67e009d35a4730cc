// RUN: rammer-opt %s --rtask-bufferize=prefer-external=true | filecheck %s
// RUN: rammer-opt %s --rtask-bufferize | filecheck %s --check-prefix=BOTH

// An external candidate that can compute an rOperator is its only one. It takes dense buffers: where the operand is a slice of columns, the compiler's own candidate stays.
// CHECK-COUNT-1: func.func private @own
// CHECK-NOT: func.func private @own
// CHECK: rtask.operator 0 @foreign_b(%arg0, %arg2)
// CHECK: rtask.operator 1 @own_b(%{{.*}}, %arg3)
// BOTH: rtask.operator 0 [@own_b, @foreign_b](%arg0, %arg2)
// BOTH: rtask.operator 1 @own_b{{.*}}(%{{.*}}, %arg3)
"rtask.module"() {sym_name = "code", form = "c", code = "int32_t f();"} : () -> ()
rtask.kernel @foreign rtasks(4) operations(1) bytes(8) attributes {external = {module = @code, symbol = "f"}} {
  reads 0[d0 +: 1, 0 +: 4]
  writes 1[d0 +: 1, 0 +: 4]
}
func.func private @foreign(index, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
rtask.kernel @own rtasks(1) operations(16) bytes(128) {
  reads 0[0 +: 4, 0 +: 4]
  writes 1[0 +: 4, 0 +: 4]
}
func.func private @own(%id: index, %a: tensor<4x4xf32>, %out: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = linalg.copy ins(%a : tensor<4x4xf32>) outs(%out : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
func.func @main(%x: tensor<4x4xf32>, %wide: tensor<4x8xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %y = rtask.operator [@own, @foreign](%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %columns = tensor.extract_slice %wide[0, 2] [4, 4] [1, 1] : tensor<4x8xf32> to tensor<4x4xf32>
  %z = rtask.operator [@own, @foreign](%columns) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %y, %z : tensor<4x4xf32>, tensor<4x4xf32>
}
