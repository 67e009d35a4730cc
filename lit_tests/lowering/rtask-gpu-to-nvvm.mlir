// RUN: rammer-opt %s --rtask-plan-memory --rtask-lower-to-gpu --rtask-gpu-to-nvvm | filecheck %s

// What an rKernel computes from its thread's number and its buffers' addresses stays inside of it.
// Its buffers are short, so that an rTask's number and all indices have 32 bits.
// CHECK: llvm.func internal @rkernel.double(%{{.*}}: i32,
// CHECK: %[[DEVICE:.*]] = llvm.addrspacecast %{{.*}} : !llvm.ptr to !llvm.ptr<1>
// CHECK: %[[HIDDEN:.*]] = llvm.inline_asm has_side_effects "", "=l,0" %[[DEVICE]]
// CHECK: llvm.addrspacecast %[[HIDDEN]] : !llvm.ptr<1> to !llvm.ptr
// CHECK: %[[THREAD:.*]] = nvvm.read.ptx.sreg.tid.x
// CHECK: llvm.inline_asm has_side_effects "", "=r,0" %[[THREAD]]
// CHECK: llvm.getelementptr %{{.*}}[%{{.*}}] : (!llvm.ptr, i32) -> !llvm.ptr, f32

// Steps and runs have 64 bits all the same. Memory orders and scopes reach LLVM; nothing of a library is called.
// CHECK: llvm.func internal @rammer_pause()
// CHECK: nvvm.nanosleep
// CHECK: llvm.func internal @rammer_await(%{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i64)
// CHECK: %[[ADDRESS:.*]] = llvm.ptrtoint %{{.*}} : !llvm.ptr to i64
// CHECK: llvm.inttoptr %[[ADDRESS]] : i64 to !llvm.ptr<1>
// CHECK: llvm.load %{{.*}} atomic syncscope("device") acquire
// CHECK: nvvm.barrier
// CHECK: llvm.func internal @rammer_publish
// CHECK: nvvm.barrier
// CHECK: llvm.store %{{.*}} atomic syncscope("device") release
// CHECK: llvm.func @rammer_program({{.*}}nvvm.kernel
// CHECK-NOT: __nv_
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
