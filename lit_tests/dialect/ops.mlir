// Every operation, in every stage where it occurs, through text and bytecode.
// RUN: rammer-opt %s --split-input-file | filecheck %s
// RUN: rammer-opt %s --split-input-file | rammer-opt --split-input-file | filecheck %s

// An rOperator on tensors; operands and results have different types.
func.func private @split(%a: tensor<4x8xf32>, %b: tensor<8xi64>)
    -> (tensor<4x8xf32>, tensor<8xi64>) {
  return %a, %b : tensor<4x8xf32>, tensor<8xi64>
}
// CHECK-LABEL: func.func @operators
func.func @operators(%a: tensor<4x8xf32>, %b: tensor<8xi64>)
    -> (tensor<4x8xf32>, tensor<8xi64>) {
  // CHECK: %0:2 = rtask.operator @split(%arg0, %arg1) : (tensor<4x8xf32>, tensor<8xi64>) -> (tensor<4x8xf32>, tensor<8xi64>)
  %r:2 = rtask.operator @split(%a, %b) : (tensor<4x8xf32>, tensor<8xi64>) -> (tensor<4x8xf32>, tensor<8xi64>)
  return %r#0, %r#1 : tensor<4x8xf32>, tensor<8xi64>
}

// -----

// Tiled: two candidates; 10 rows in tiles of 4 leave a tile of 2.
// CHECK:      rtask.kernel @rows_t0 rtasks(3) operations(4) bytes(64) {
// CHECK-NEXT:   reads 0[d0 * 4 +: 4]
// CHECK-NEXT:   writes 1[d0 * 4 +: 4]
// CHECK-NEXT: }
rtask.kernel @rows_t0 rtasks(3) operations(4) bytes(64) {
  reads 0[d0 * 4 +: 4]
  writes 1[d0 * 4 +: 4]
}
func.func private @rows_t0(%id: index, %a: tensor<10xf32>, %out: tensor<10xf32>) -> tensor<10xf32> {
  return %a : tensor<10xf32>
}
// CHECK: rtask.kernel @rows_t1
// CHECK-NEXT: writes 1[d0 +: 1]
rtask.kernel @rows_t1 rtasks(10) operations(1) bytes(16) {
  writes 1[d0 +: 1]
}
func.func private @rows_t1(%id: index, %a: tensor<10xf32>, %out: tensor<10xf32>) -> tensor<10xf32> {
  return %a : tensor<10xf32>
}
// CHECK-LABEL: func.func @tasks
func.func @tasks(%a: tensor<10xf32>) -> tensor<10xf32> {
  // CHECK: rtask.operator [@rows_t0, @rows_t1](%arg0) : (tensor<10xf32>) -> tensor<10xf32>
  %r = rtask.operator [@rows_t0, @rows_t1](%a) : (tensor<10xf32>) -> tensor<10xf32>
  return %r : tensor<10xf32>
}

// -----

// Updated in place: boxes that overlap, and do not cover the argument.
// CHECK: rtask.kernel @shift
// CHECK-NEXT: updates 0[d0 * 2 +: 3]
rtask.kernel @shift rtasks(3) operations(4) bytes(64) {
  updates 0[d0 * 2 +: 3]
}
func.func private @shift(%id: index, %a: memref<9xf32>) {
  return
}

// -----

// On memrefs, and scheduled. The operand's offset differs from the rKernel's argument, and so does
// the stride of a dimension of one element.
// CHECK: rtask.kernel @copy
rtask.kernel @copy rtasks(4) operations(0) bytes(32) {
  reads 0[0 +: 1, d0 +: 1]
  writes 1[0 +: 1, d0 +: 1]
}
func.func private @copy(%id: index, %a: memref<1x4xf32, strided<[9, 2]>>, %out: memref<1x4xf32>) {
  return
}
// CHECK-LABEL: func.func @buffers
func.func @buffers(%a: memref<1x4xf32, strided<[8, 2], offset: 3>>, %y: memref<1x4xf32>) {
  // CHECK: rtask.operator 0 @copy(%arg0, %arg1)
  rtask.operator 0 @copy(%a, %y) : (memref<1x4xf32, strided<[8, 2], offset: 3>>, memref<1x4xf32>) -> ()
  return
}
// CHECK-LABEL: func.func @program
func.func @program(%a: memref<1x4xf32, strided<[8, 2], offset: 3>>, %y: memref<1x4xf32>) {
  // CHECK:      rtask.program on "cpu" veus(2) buffers(
  // CHECK-NEXT:     %arg0: memref<1x4xf32, strided<[8, 2], offset: 3>>,
  // CHECK-NEXT:     %arg1: memref<1x4xf32>) {
  // CHECK-NEXT:   veu 0 {
  // CHECK-NEXT:     run @copy[0..2] of 0 (%arg0, %arg1)
  // CHECK-NEXT:   }
  // CHECK-NEXT:   veu 1 {
  // CHECK-NEXT:     wait veu 0 @ 2
  // CHECK-NEXT:     run @copy[3] of 0 (%arg0, %arg1)
  // CHECK-NEXT:   }
  // CHECK-NEXT: }
  rtask.program on "cpu" veus(2) buffers(
      %a: memref<1x4xf32, strided<[8, 2], offset: 3>>,
      %y: memref<1x4xf32>) {
    veu 0 {
      run @copy[0..2] of 0 (%a, %y)
    }
    veu 1 {
      wait veu 0 @ 2
      run @copy[3] of 0 (%a, %y)
    }
  }
  return
}
