// RUN: rammer-opt %s --rtask-schedule="num-veus=1 memory=512" | filecheck %s
// RUN: rammer-opt %s --rtask-schedule="num-veus=1 memory=256" --rtask-plan-memory | filecheck %s --check-prefix=LIMITED
// RUN: rammer-opt %s --rtask-schedule="num-veus=1" --rtask-plan-memory | filecheck %s --check-prefix=FREE
// RUN: not rammer-opt %s --rtask-schedule="num-veus=1 memory=128" 2>&1 | filecheck %s --check-prefix=LESS
// RUN: not rammer-opt %s --rtask-schedule="memory=-1" 2>&1 | filecheck %s --check-prefix=NEGATIVE

// Two branches: with memory for both, their first operators run in one wave.
// CHECK:      run @rows[0..3] of 0
// CHECK-NEXT: run @rows[0..3] of 2
// CHECK-NEXT: run @rows[0..3] of 1
// CHECK-NEXT: run @rows[0..3] of 3

// FREE: memref<512xi8> {rtask.arena

// With memory for one, the second waits until the first one's value was read.
// LIMITED:      memref<256xi8> {rtask.arena
// LIMITED:      run @rows[0..3] of 0
// LIMITED-NEXT: run @rows[0..3] of 1
// LIMITED-NEXT: run @rows[0..3] of 2
// LIMITED-NEXT: run @rows[0..3] of 3

// LESS: memory: expected intermediates that fit into 128 bytes, found 256 in the order of the graph
// NEGATIVE: rtask-schedule: memory: expected at least 0, found -1
rtask.kernel @rows rtasks(4) operations(50000) bytes(128) {
  reads 0[d0 +: 1, 0 +: 16]
  writes 1[d0 +: 1, 0 +: 16]
}
func.func private @rows(%id: index, %a: memref<4x16xf32>, %out: memref<4x16xf32>) {
  return
}
func.func @main(%x: memref<4x16xf32>, %y: memref<4x16xf32> {rtask.output},
                %z: memref<4x16xf32> {rtask.output}) {
  %s = memref.alloc() : memref<4x16xf32>
  %t = memref.alloc() : memref<4x16xf32>
  rtask.operator 0 @rows(%x, %s) : (memref<4x16xf32>, memref<4x16xf32>) -> ()
  rtask.operator 1 @rows(%s, %y) : (memref<4x16xf32>, memref<4x16xf32>) -> ()
  rtask.operator 2 @rows(%x, %t) : (memref<4x16xf32>, memref<4x16xf32>) -> ()
  rtask.operator 3 @rows(%t, %z) : (memref<4x16xf32>, memref<4x16xf32>) -> ()
  return
}
