// RUN: rammer-opt %s --pass-pipeline='builtin.module(rtask-schedule{device=ipu num-veus=4},rtask-verify-schedule)' | filecheck %s --check-prefix=STEPS
// RUN: rammer-opt %s --pass-pipeline='builtin.module(rtask-schedule{device=ipu num-veus=4},rtask-fold-veus{num-veus=2},rtask-verify-schedule)' | filecheck %s --check-prefix=FOLDED
// RUN: not rammer-opt %s --pass-pipeline='builtin.module(rtask-schedule{device=cpu num-veus=2},rtask-fold-veus)' 2>&1 | filecheck %s --check-prefix=BARRIERS
// RUN: not rammer-opt %s --rtask-fold-veus=num-veus=0 2>&1 | filecheck %s --check-prefix=NONE

// On a device that synchronizes as a whole, each row of the second operator waits for all rows of
// the first by being in the next superstep, an rProgram.
// STEPS:     rtask.program on "ipu" veus(4)
// STEPS-NOT: of 1
// STEPS:     rtask.program on "ipu" veus(4)
// STEPS-NOT: of 0
// STEPS-NOT: wait
// STEPS:     return

// FOLDED:      rtask.program on "ipu" veus(2)
// FOLDED:      veu 0 {
// FOLDED-NEXT:   run @rows[0] of 0 ({{.*}})
// FOLDED-NEXT:   run @rows[1] of 0 ({{.*}})
// FOLDED-NEXT: }
// FOLDED:      rtask.program on "ipu" veus(2)

// BARRIERS: error: {{.*}}rProgram 0: expected no barriers between vEUs that are folded into one, found 2 waits; schedule for a bulk-synchronous device
// NONE: error: {{.*}}rtask-fold-veus: num-veus: expected at least 1, found 0
rtask.kernel @rows rtasks(4) operations(50000) bytes(128) {
  reads 0[d0 +: 1, 0 +: 16]
  writes 1[d0 +: 1, 0 +: 16]
}
func.func private @rows(%id: index, %a: memref<4x16xf32>, %out: memref<4x16xf32>) {
  return
}
rtask.kernel @mix rtasks(4) operations(50000) bytes(128) {
  reads 0[0 +: 4, 0 +: 16]
  writes 1[d0 +: 1, 0 +: 16]
}
func.func private @mix(%id: index, %a: memref<4x16xf32>, %out: memref<4x16xf32>) {
  return
}
func.func @main(%x: memref<4x16xf32>, %y: memref<4x16xf32> {rtask.output}) {
  %t = memref.alloc() : memref<4x16xf32>
  rtask.operator 0 @rows(%x, %t) : (memref<4x16xf32>, memref<4x16xf32>) -> ()
  rtask.operator 1 @mix(%t, %y) : (memref<4x16xf32>, memref<4x16xf32>) -> ()
  return
}
