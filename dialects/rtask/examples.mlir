// rtask.operator: one on tensors with its computation, and the same with buffers and an rKernel.
func.func private @double(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = arith.addf %x, %x : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = rtask.operator @double(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
func.func private @double_tile(%id: index, %x: memref<4x8xf32>, %y: memref<4x8xf32>) {
  return
}
func.func private @buffers(%x: memref<4x8xf32>, %y: memref<4x8xf32>) {
  rtask.operator 0 "node" @double_tile(%x, %y) : (memref<4x8xf32>, memref<4x8xf32>) -> ()
  return
}

// -----
// rtask.kernel: four rTasks, each of which computes a row.
func.func private @row(%id: index, %x: memref<4x8xf32>, %y: memref<4x8xf32>) {
  return
}
rtask.kernel @row rtasks(4) operations(8) bytes(64) {
  reads 0[d0 +: 1, 0 +: 8]
  writes 1[d0 +: 1, 0 +: 8]
}

// -----
// rtask.module: C code, and the rKernel that is a function of it.
"rtask.module"() {sym_name = "code", form = "c", code = "void f(long id, const float *x, float *y) {}"} : () -> ()
func.func private @foreign(index, memref<8xf32>, memref<8xf32>)
rtask.kernel @foreign rtasks(1) operations(8) bytes(64) attributes {external = {module = @code, symbol = "f"}} {
  reads 0[0 +: 8]
  writes 1[0 +: 8]
}

// -----
// rtask.program rtask.veu rtask.run rtask.barrier: two rOperators on two vEUs; each vEU waits for the other one's rows of the first before it computes its own of the second.
func.func private @row(%id: index, %x: memref<4x8xf32>, %y: memref<4x8xf32>) {
  return
}
rtask.kernel @row rtasks(4) operations(8) bytes(64) {
  reads 0[d0 +: 1, 0 +: 8]
  writes 1[d0 +: 1, 0 +: 8]
}
func.func @main(%x: memref<4x8xf32>, %y: memref<4x8xf32> {rtask.output}) {
  %t = memref.alloc() : memref<4x8xf32>
  rtask.program on "cpu" veus(2) buffers(
      %x: memref<4x8xf32>,
      %t: memref<4x8xf32>,
      %y: memref<4x8xf32>) {
    veu 0 {
      run @row[0..1] of 0 "first" (%x, %t)
      wait veu 1 @ 1
      run @row[0..1] of 1 "second" (%t, %y)
    }
    veu 1 {
      run @row[2..3] of 0 "first" (%x, %t)
      wait veu 0 @ 1
      run @row[2..3] of 1 "second" (%t, %y)
    }
  }
  return
}
