// RUN: rammer-opt %s --rtask-plan-memory --rtask-lower-to-gpu | filecheck %s
// RUN: rammer-opt %s --rtask-plan-memory --rtask-lower-to-gpu=straight-line-limit=0 | filecheck %s --check-prefix=LOOP
// RUN: rammer-opt %s --rtask-plan-memory --rtask-lower-to-gpu=target=rocdl:gfx90a | filecheck %s --check-prefix=AMD

// One rKernel, called by both vEUs; the second waits for the first.
// CHECK: gpu.module @rammer
// CHECK: func.func private @rkernel.double(%{{.*}}: index, %{{.*}}: memref<4x16xf32>, %{{.*}}: memref<4x16xf32>, %{{.*}}: memref<16xi8, #gpu.address_space<workgroup>>, %{{.*}}: memref<16xi8>)
// CHECK: gpu.thread_id x
// CHECK: scf.for
// CHECK-NOT: func.func private @rkernel

// The poll acquires at device scope; after some polls it pauses between two of them. The whole block
// meets behind.
// CHECK: func.func private @rammer_pause()
// CHECK: func.func private @rammer_await
// CHECK: scf.while
// CHECK: llvm.load %{{.*}} atomic syncscope("device") acquire {alignment = 8 : i64} : !llvm.ptr<1> -> i64
// CHECK: scf.if
// CHECK-NEXT: func.call @rammer_pause()
// CHECK: gpu.barrier
// CHECK-NEXT: return

// The block meets before one thread releases.
// CHECK: func.func private @rammer_publish
// CHECK: gpu.barrier
// CHECK: arith.cmpi eq
// CHECK: scf.if
// CHECK: llvm.store %{{.*}}, %{{.*}} atomic syncscope("device") release {alignment = 8 : i64} : i64, !llvm.ptr<1>

// CHECK: gpu.func @rammer_program(%{{.*}}: memref<256xi8>, %{{.*}}: memref<256xi8>, %{{.*}}: memref<16xi8>, %[[ARENA:.*]]: memref<256xi8>, %{{.*}}: memref<32xi8>, %[[COUNTERS:.*]]: memref<32xi64>, %[[TABLE:.*]]: memref<{{.*}}xi64>) workgroup
// CHECK-SAME: kernel attributes {known_block_size = array<i32: 256, 1, 1>, known_grid_size = array<i32: 2, 1, 1>}
// CHECK: scf.index_switch
// CHECK: case 0
// CHECK: call @rkernel.double
// CHECK-NOT: gpu.barrier
// CHECK: call @rammer_publish
// CHECK: case 1
// CHECK: call @rammer_await
// CHECK: call @rkernel.double
// CHECK: gpu.return

// The next record is fetched before the publication or the wait.
// LOOP: gpu.func @rammer_program
// LOOP: scf.while
// LOOP: scf.index_switch
// LOOP: case 0
// LOOP-COUNT-2: scf.index_switch %{{.*}} -> memref<?xi8>
// LOOP: scf.for
// LOOP-NEXT: call @rkernel.double
// LOOP-COUNT-5: memref.load %[[TABLE:.*]][%{{.*}}]
// LOOP: scf.if
// LOOP-NEXT: %[[TOTAL:.*]] = memref.load
// LOOP-NEXT: %[[BEFORE:.*]] = arith.muli %[[TOTAL]], %{{.*}} : i64
// LOOP-NEXT: %[[DONE:.*]] = arith.addi %[[BEFORE]], %{{.*}} : i64
// LOOP-NEXT: call @rammer_publish(%{{.*}}, %{{.*}}, %[[DONE]])
// LOOP: default
// LOOP-COUNT-5: memref.load
// LOOP: call @rammer_await
// LOOP-NOT: call @rkernel.double
// LOOP: gpu.return

// On AMD each thread orders its own accesses too, and the device's scope is called agent.
// AMD: func.func private @rammer_await
// AMD: llvm.load %{{.*}} atomic syncscope("agent") acquire
// AMD: gpu.barrier
// AMD-NEXT: llvm.fence syncscope("agent") acquire
// AMD: func.func private @rammer_publish
// AMD: llvm.fence syncscope("agent") release
// AMD-NEXT: gpu.barrier
// AMD: llvm.store %{{.*}} atomic syncscope("agent") release
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
