// RUN: rammer-opt %s --rtask-plan-memory --rtask-lower-to-gpu=target=rocdl:gfx942 --rtask-gpu-to-rocdl=chip=gfx942 | filecheck %s

// Its buffers are short, so that an rTask's number and all indices have 32 bits.
// CHECK: llvm.func internal @rkernel.double(%{{.*}}: i32,
// CHECK: llvm.getelementptr %{{.*}}[%{{.*}}] : (!llvm.ptr, i32) -> !llvm.ptr, f32

// Memory orders and scopes reach LLVM; nothing of a library is called.
// CHECK: llvm.func internal @rammer_pause()
// CHECK: rocdl.s.sleep
// CHECK: llvm.func internal @rammer_await
// CHECK: llvm.load %{{.*}} atomic syncscope("agent") acquire
// CHECK: rocdl.s.barrier
// CHECK: llvm.fence syncscope("agent") acquire
// CHECK: llvm.func internal @rammer_publish
// CHECK: llvm.fence syncscope("agent") release
// CHECK: rocdl.s.barrier
// CHECK: llvm.store %{{.*}} atomic syncscope("agent") release
// CHECK: llvm.func @rammer_program({{.*}}rocdl.kernel
// CHECK-NOT: __ocml_
#rows = affine_map<(d0, d1) -> (d0, d1)>
"rtask.kernel"() {function = @double, num_rtasks = 1 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 64 : i64, bytes = 512 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (0, 0)>, sizes = array<i64: 4, 16>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (0, 0)>, sizes = array<i64: 4, 16>}]
} : () -> ()
func.func private @double(%id: index, %a: memref<4x16xf32>, %out: memref<4x16xf32>) {
  linalg.generic {indexing_maps = [#rows, #rows], iterator_types = ["parallel", "parallel"]}
      ins(%a : memref<4x16xf32>) outs(%out : memref<4x16xf32>) {
  ^bb0(%x: f32, %old: f32):
    %sum = arith.addf %x, %x : f32
    linalg.yield %sum : f32
  }
  return
}
func.func @main(%x: memref<4x16xf32>, %y: memref<4x16xf32> {rtask.output}) {
  %a = memref.alloc() : memref<4x16xf32>
  "rtask.program"() ({
    "rtask.veu"() ({
      "rtask.run"(%x, %a) {kernel = @double, operator_id = 0 : i64, first = 0 : i64, count = 1 : i64}
          : (memref<4x16xf32>, memref<4x16xf32>) -> ()
    }) {id = 0 : i64} : () -> ()
    "rtask.veu"() ({
      "rtask.barrier"() {waits = array<i64: 0, 0>} : () -> ()
      "rtask.run"(%a, %y) {kernel = @double, operator_id = 1 : i64, first = 0 : i64, count = 1 : i64}
          : (memref<4x16xf32>, memref<4x16xf32>) -> ()
    }) {id = 1 : i64} : () -> ()
  }) {device = "cpu", num_veus = 2 : i64} : () -> ()
  return
}
