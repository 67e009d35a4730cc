// RUN: rammer-opt %s --rtask-prefer-external | filecheck %s

// An rOperator with an external candidate keeps it alone; others keep what they have.
// CHECK: rtask.operator 0 @foreign(%arg0, %arg1)
// CHECK: rtask.operator 1 [@coarse, @fine](%arg0, %arg2)
"rtask.module"() {sym_name = "code", form = "c", code = "int32_t f();"} : () -> ()
rtask.kernel @foreign rtasks(4) operations(1) bytes(8) attributes {external = {module = @code, symbol = "f"}} {
  reads 0[d0 +: 1]
  writes 1[d0 +: 1]
}
func.func private @foreign(index, memref<4xf32>, memref<4xf32>)
rtask.kernel @coarse rtasks(1) operations(4) bytes(32) {
  reads 0[0 +: 4]
  writes 1[0 +: 4]
}
func.func private @coarse(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  memref.copy %a, %out : memref<4xf32> to memref<4xf32>
  return
}
rtask.kernel @fine rtasks(2) operations(2) bytes(16) {
  reads 0[d0 * 2 +: 2]
  writes 1[d0 * 2 +: 2]
}
func.func private @fine(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}
func.func @main(%x: memref<4xf32>, %y: memref<4xf32> {rtask.output}, %z: memref<4xf32> {rtask.output}) {
  rtask.operator 0 [@coarse, @foreign, @fine](%x, %y) : (memref<4xf32>, memref<4xf32>) -> ()
  rtask.operator 1 [@coarse, @fine](%x, %z) : (memref<4xf32>, memref<4xf32>) -> ()
  return
}
