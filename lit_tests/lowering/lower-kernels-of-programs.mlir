// In a scheduled program, rKernels stay and call their LLVM functions: the schedule is still valid, and can be lowered.
// RUN: rammer-opt %s --rtask-plan-memory --rtask-lower-kernels --rtask-verify-schedule | filecheck %s
// RUN: rammer-opt %s --rtask-plan-memory --rtask-lower-kernels --rtask-lower-to-cpu --emit-llvm-ir | filecheck %s --check-prefix=IR

// CHECK: func.func private @double(%{{.*}}: index, %[[X:.*]]: memref<4x16xf32>, %{{.*}}: memref<4x16xf32>)
// CHECK: memref.extract_aligned_pointer_as_index %[[X]]
// CHECK: llvm.call @double.llvm(
// CHECK: rtask.kernel @double
// CHECK: rtask.program
// CHECK: llvm.func @double.llvm(%{{.*}}: i64, %{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr)
// IR: @double.llvm(
// IR: define void @rammer_main(
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
