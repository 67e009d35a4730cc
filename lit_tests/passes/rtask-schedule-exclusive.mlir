// An external rKernel of the grain device is an rProgram of its own, whatever the policy.
// RUN: rammer-opt %s --rtask-schedule | filecheck %s
// RUN: rammer-opt %s --rtask-schedule="policy=list num-veus=2" --rtask-minimize-barriers --rtask-plan-memory --rtask-verify-schedule | filecheck %s
// RUN: rammer-opt %s --rtask-schedule="policy=sequential num-veus=3" --rtask-verify-schedule -o /dev/null
// RUN: not rammer-opt %s --pass-pipeline='builtin.module(rtask-schedule,rtask-plan-memory,rtask-lower-to-gpu{target=nvvm:sm_90})' 2>&1 | filecheck %s --check-prefix=GPU

// What does not depend on it is in the rProgram before.
// CHECK-DAG:  rtask.kernel @whole rtasks(1) operations(50000) bytes(512) attributes {external = {grain = "device", module = @code, symbol = "whole"}}
// CHECK:      rtask.program on "cpu" veus(2)
// CHECK:        veu 0 {
// CHECK:          run @rows[{{.*}}] of {{[02]}}
// CHECK:        veu 1 {
// CHECK:          run @rows[{{.*}}] of {{[02]}}
// CHECK:      rtask.program on "cpu" veus(2)
// CHECK:        veu 0 {
// CHECK-NEXT:     run @whole[0] of 1 (
// CHECK-NEXT:   }
// CHECK-NEXT:   veu 1 {
// CHECK-NEXT:   }
// CHECK:      rtask.program on "cpu" veus(2)
// CHECK:          run @rows[0{{.*}}] of 3
// CHECK:        veu 1 {
// CHECK:          run @rows[{{.*}}] of 3
// GPU: error: external rKernel '@whole' ('whole'): expected code of the form llvm, ptx, cuda for nvvm:sm_90, found 'c'
"rtask.module"() {sym_name = "code", form = "c", code = "int32_t whole(int64_t rtask, const float *x, float *y);"} : () -> ()
rtask.kernel @whole rtasks(1) operations(50000) bytes(512) attributes {external = {grain = "device", module = @code, symbol = "whole"}} {
  reads 0[0 +: 4, 0 +: 16]
  writes 1[0 +: 4, 0 +: 16]
}
func.func private @whole(index, memref<4x16xf32>, memref<4x16xf32>)
rtask.kernel @rows rtasks(4) operations(50000) bytes(128) {
  reads 0[d0 +: 1, 0 +: 16]
  writes 1[d0 +: 1, 0 +: 16]
}
func.func private @rows(%id: index, %a: memref<4x16xf32>, %out: memref<4x16xf32>) {
  return
}
func.func @main(%x: memref<4x16xf32>, %y: memref<4x16xf32> {rtask.output}, %z: memref<4x16xf32> {rtask.output}) {
  %s = memref.alloc() : memref<4x16xf32>
  %t = memref.alloc() : memref<4x16xf32>
  rtask.operator 0 @rows(%x, %s) : (memref<4x16xf32>, memref<4x16xf32>) -> ()
  rtask.operator 1 @whole(%s, %t) : (memref<4x16xf32>, memref<4x16xf32>) -> ()
  rtask.operator 2 @rows(%x, %z) : (memref<4x16xf32>, memref<4x16xf32>) -> ()
  rtask.operator 3 @rows(%t, %y) : (memref<4x16xf32>, memref<4x16xf32>) -> ()
  return
}
