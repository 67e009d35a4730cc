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
// SAME: "rtask.program"

// NONE: error: {{.*}}expected at least one rtask.program, found none: run rtask-schedule first
"rtask.kernel"() {function = @rows, num_rtasks = 4 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 50000 : i64, bytes = 128 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0, 0)>, sizes = array<i64: 1, 16>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0, 0)>, sizes = array<i64: 1, 16>}]
} : () -> ()
func.func private @rows(%id: index, %a: memref<4x16xf32>, %out: memref<4x16xf32>) {
  return
}
func.func @main(%x: memref<4x16xf32>, %y: memref<4x16xf32> {rtask.output}) {
  %t = memref.alloc() : memref<4x16xf32>
  "rtask.operator"(%x, %t) {kernels = [@rows], operator_id = 0 : i64}
      : (memref<4x16xf32>, memref<4x16xf32>) -> () loc("first")
  "rtask.operator"(%t, %y) {kernels = [@rows], operator_id = 1 : i64}
      : (memref<4x16xf32>, memref<4x16xf32>) -> () loc("second")
  return
}
