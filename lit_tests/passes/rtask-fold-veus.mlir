// RUN: rammer-opt %s --pass-pipeline='builtin.module(rtask-schedule{device=ipu num-veus=4},rtask-verify-schedule)' | filecheck %s --check-prefix=STEPS
// RUN: rammer-opt %s --pass-pipeline='builtin.module(rtask-schedule{device=ipu num-veus=4},rtask-fold-veus{num-veus=2},rtask-verify-schedule)' | filecheck %s --check-prefix=FOLDED
// RUN: not rammer-opt %s --pass-pipeline='builtin.module(rtask-schedule{device=cpu num-veus=2},rtask-fold-veus)' 2>&1 | filecheck %s --check-prefix=BARRIERS
// RUN: not rammer-opt %s --rtask-fold-veus=num-veus=0 2>&1 | filecheck %s --check-prefix=NONE

// On a device that synchronises as a whole, each row of the second operator waits for all rows of
// the first by being in the next superstep, an rProgram.
// STEPS:     "rtask.program"() ({
// STEPS-NOT: operator_id = 1
// STEPS:     }) {device = "ipu", num_veus = 4 : i64}
// STEPS:     "rtask.program"() ({
// STEPS-NOT: operator_id = 0
// STEPS-NOT: rtask.barrier
// STEPS:     }) {device = "ipu", num_veus = 4 : i64}

// FOLDED:      "rtask.veu"() ({
// FOLDED-NEXT:   "rtask.run"({{.*}}) {count = 1 : i64, first = 0 : i64, kernel = @rows, operator_id = 0 : i64}
// FOLDED-NEXT:   "rtask.run"({{.*}}) {count = 1 : i64, first = 1 : i64, kernel = @rows, operator_id = 0 : i64}
// FOLDED-NEXT: }) {id = 0 : i64}
// FOLDED:      }) {device = "ipu", num_veus = 2 : i64}
// FOLDED:      }) {device = "ipu", num_veus = 2 : i64}

// BARRIERS: error: {{.*}}rProgram 0: expected no barriers between vEUs that are folded into one, found 2 waits; schedule for a bulk-synchronous device
// NONE: error: {{.*}}number of vEUs: expected at least 1, found 0
"rtask.kernel"() {function = @rows, num_rtasks = 4 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 50000 : i64, bytes = 128 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0, 0)>, sizes = array<i64: 1, 16>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0, 0)>, sizes = array<i64: 1, 16>}]
} : () -> ()
func.func private @rows(%id: index, %a: memref<4x16xf32>, %out: memref<4x16xf32>) {
  return
}
"rtask.kernel"() {function = @mix, num_rtasks = 4 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 50000 : i64, bytes = 128 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (0, 0)>, sizes = array<i64: 4, 16>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0, 0)>, sizes = array<i64: 1, 16>}]
} : () -> ()
func.func private @mix(%id: index, %a: memref<4x16xf32>, %out: memref<4x16xf32>) {
  return
}
func.func @main(%x: memref<4x16xf32>, %y: memref<4x16xf32> {rtask.output}) {
  %t = memref.alloc() : memref<4x16xf32>
  "rtask.operator"(%x, %t) {kernels = [@rows], operator_id = 0 : i64}
      : (memref<4x16xf32>, memref<4x16xf32>) -> ()
  "rtask.operator"(%t, %y) {kernels = [@mix], operator_id = 1 : i64}
      : (memref<4x16xf32>, memref<4x16xf32>) -> ()
  return
}
