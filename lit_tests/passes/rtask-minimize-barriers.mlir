// RUN: rammer-opt %s --rtask-minimize-barriers --rtask-verify-schedule | filecheck %s

// A wait for an earlier rTask of the same vEU is implied by one for a later one, and one that was
// met already needs no barrier. What vEU 1 has seen, vEU 2 has seen after waiting for vEU 1.
// CHECK:      veu 0 {
// CHECK-NEXT:   run @rows[0..3] of 0
// CHECK-NEXT: }
// CHECK-NEXT: veu 1 {
// CHECK-NEXT:   wait veu 0 @ 2{{$}}
// CHECK-NEXT:   run @rows[0..2] of 1
// CHECK-NEXT:   wait veu 0 @ 3{{$}}
// CHECK-NEXT:   run @rows[3] of 1
// CHECK-NEXT: }
// CHECK-NEXT: veu 2 {
// CHECK-NEXT:   wait veu 1 @ 3{{$}}
// CHECK-NEXT:   run @rows[0..3] of 2
// CHECK-NEXT: }
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
  rtask.program on "cpu" veus(3) buffers(
      %x: memref<4x16xf32>,
      %a: memref<4x16xf32>,
      %b: memref<4x16xf32>,
      %y: memref<4x16xf32>) {
    veu 0 {
      run @rows[0..3] of 0 (%x, %a)
    }
    veu 1 {
      wait veu 0 @ 0, veu 0 @ 2
      run @rows[0..2] of 1 (%a, %b)
      wait veu 0 @ 1
      wait veu 0 @ 3
      run @rows[3] of 1 (%a, %b)
    }
    veu 2 {
      wait veu 0 @ 3, veu 1 @ 3
      run @rows[0..3] of 2 (%b, %y)
    }
  }
  return
}
