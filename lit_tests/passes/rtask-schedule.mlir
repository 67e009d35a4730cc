// RUN: rammer-opt %s --rtask-schedule | filecheck %s
// RUN: rammer-opt %s --rtask-schedule="policy=sequential num-veus=2" | filecheck %s --check-prefix=SEQUENTIAL
// RUN: rammer-opt %s --rtask-schedule=num-veus=1 | filecheck %s --check-prefix=ONE

// A chain of row-wise operators: each vEU keeps its rows, so that nothing waits.
// CHECK:      rtask.program on "cpu" veus(2)
// CHECK:        veu 0 {
// CHECK-NEXT:     run @rows[0..1] of 0 (%[[X:.*]], %[[T:.*]])
// CHECK-NEXT:     run @rows[0..1] of 1 (%[[T]], %[[Y:.*]])
// CHECK-NEXT:   }
// CHECK-NEXT:   veu 1 {
// CHECK-NEXT:     run @rows[2..3] of 0 (%[[X]], %[[T]])
// CHECK-NEXT:     run @rows[2..3] of 1 (%[[T]], %[[Y]])
// CHECK-NEXT:   }
// CHECK-NEXT: }

// Operator after operator: all of the first must be over before the second begins.
// SEQUENTIAL:      run @rows[0..1] of 0 ({{.*}})
// SEQUENTIAL-NEXT: wait veu 1 @ 1
// SEQUENTIAL-NEXT: run @rows[0..1] of 1 ({{.*}})
// SEQUENTIAL:      wait veu 0 @ 1

// ONE:      run @rows[0..3] of 0 ({{.*}})
// ONE-NEXT: run @rows[0..3] of 1 ({{.*}})
// ONE-NOT:  wait
rtask.kernel @rows rtasks(4) operations(50000) bytes(128) {
  reads 0[d0 +: 1, 0 +: 16]
  writes 1[d0 +: 1, 0 +: 16]
}
func.func private @rows(%id: index, %a: memref<4x16xf32>, %out: memref<4x16xf32>) {
  return
}
func.func @main(%x: memref<4x16xf32>, %y: memref<4x16xf32> {rtask.output}) {
  %t = memref.alloc() : memref<4x16xf32>
  rtask.operator 0 @rows(%x, %t) : (memref<4x16xf32>, memref<4x16xf32>) -> ()
  rtask.operator 1 @rows(%t, %y) : (memref<4x16xf32>, memref<4x16xf32>) -> ()
  return
}
