// RUN: rammer-opt %s --rtask-schedule=policy=sequential --rtask-print-schedule -o %t 2>&1 | filecheck %s
// RUN: rammer-opt %t --rtask-print-schedule 2>/dev/null | filecheck %s --check-prefix=SAME
// RUN: not rammer-opt %s --rtask-print-schedule 2>&1 | filecheck %s --check-prefix=NONE

// CHECK:      rProgram 0 on 'cpu': 2 vEUs, 8 rTasks, 2 barriers with 2 waits, predicted end [[#]].{{[0-9]+}} us
// CHECK-NEXT: vEU  order  start us  end us  what                 rTasks  rKernel
// CHECK-NEXT: {{^}}  0    0-1 {{.*}}  first                0-1     @rows
// CHECK-NEXT: {{^}}  0      - {{.*}}  barrier: vEU 1 order 1
// CHECK-NEXT: {{^}}  0    2-3 {{.*}}  second               0-1     @rows
// CHECK-NEXT: {{^}}  1    0-1 {{.*}}  first                2-3     @rows
// CHECK-NEXT: {{^}}  1      - {{.*}}  barrier: vEU 0 order 1
// CHECK-NEXT: {{^}}  1    2-3 {{.*}}  second               2-3     @rows

// The module passes through.
// SAME: rtask.program

// NONE: error: {{.*}}expected at least one rtask.program, found none: run rtask-schedule first
rtask.kernel @rows rtasks(4) operations(50000) bytes(128) {
  reads 0[d0 +: 1, 0 +: 16]
  writes 1[d0 +: 1, 0 +: 16]
}
func.func private @rows(%id: index, %a: memref<4x16xf32>, %out: memref<4x16xf32>) {
  return
}
func.func @main(%x: memref<4x16xf32>, %y: memref<4x16xf32> {rtask.output}) {
  %t = memref.alloc() : memref<4x16xf32>
  rtask.operator 0 "first" @rows(%x, %t) : (memref<4x16xf32>, memref<4x16xf32>) -> ()
  rtask.operator 1 "second" @rows(%t, %y) : (memref<4x16xf32>, memref<4x16xf32>) -> ()
  return
}
