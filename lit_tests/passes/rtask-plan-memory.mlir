// RUN: rammer-opt %s --rtask-plan-memory --rtask-verify-schedule | filecheck %s

// A chain of three intermediates: the third takes the place of the first. What nobody uses is gone, with its views.
// CHECK: func.func @main(%[[X:.*]]: memref<4x16xf32>, %[[Y:.*]]: memref<4x16xf32> {rtask.output}, %[[ARENA:.*]]: memref<512xi8> {rtask.arena, rtask.intermediate_bytes = 768 : i64, rtask.live_bytes = {{[0-9]+}} : i64})
// CHECK-NOT: memref.alloc
// CHECK-NOT: memref.subview
// CHECK: %[[START:.*]] = arith.constant 0 : index
// CHECK: %[[A:.*]] = memref.view %[[ARENA]][%[[START]]][]
// CHECK: %[[SECOND:.*]] = arith.constant 256 : index
// CHECK: %[[B:.*]] = memref.view %[[ARENA]][%[[SECOND]]][]
// CHECK: %[[AGAIN:.*]] = arith.constant 0 : index
// CHECK: %[[C:.*]] = memref.view %[[ARENA]][%[[AGAIN]]][]
// CHECK: run {{.*}}(%[[X]], %[[A]])
// CHECK: run {{.*}}(%[[A]], %[[B]])
// CHECK: run {{.*}}(%[[B]], %[[C]])
// CHECK: run {{.*}}(%[[C]], %[[Y]])
rtask.kernel @rows rtasks(4) operations(50000) bytes(128) {
  reads 0[d0 +: 1, 0 +: 16]
  writes 1[d0 +: 1, 0 +: 16]
}
func.func private @rows(%id: index, %a: memref<4x16xf32>, %out: memref<4x16xf32>) {
  return
}
func.func @main(%x: memref<4x16xf32>, %y: memref<4x16xf32> {rtask.output}) {
  %a = memref.alloc() : memref<4x16xf32>
  %b = memref.alloc() : memref<4x16xf32>
  %c = memref.alloc() : memref<4x16xf32>
  %unused = memref.alloc() : memref<4x16xf32>
  %view = memref.collapse_shape %unused [[0, 1]] : memref<4x16xf32> into memref<64xf32>
  %part = memref.subview %view[0] [16] [1] : memref<64xf32> to memref<16xf32>
  rtask.program on "cpu" veus(1) buffers(
      %x: memref<4x16xf32>,
      %a: memref<4x16xf32>,
      %b: memref<4x16xf32>,
      %c: memref<4x16xf32>,
      %y: memref<4x16xf32>) {
    veu 0 {
      run @rows[0..3] of 0 (%x, %a)
      run @rows[0..3] of 1 (%a, %b)
      run @rows[0..3] of 2 (%b, %c)
      run @rows[0..3] of 3 (%c, %y)
    }
  }
  return
}
