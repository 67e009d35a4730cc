// Launches that upstream's own pipeline makes of linalg, as a graph, a schedule, and one kernel.
// RUN: rammer-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(convert-linalg-to-parallel-loops,scf-parallel-loop-tiling{parallel-loop-tile-sizes=4,8 no-min-max-bounds=true},gpu-map-parallel-loops),convert-parallel-loops-to-gpu,gpu-kernel-outlining,rtask-from-gpu)' | filecheck %s
// RUN: rammer-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(convert-linalg-to-parallel-loops,scf-parallel-loop-tiling{parallel-loop-tile-sizes=4,8 no-min-max-bounds=true},gpu-map-parallel-loops),convert-parallel-loops-to-gpu,gpu-kernel-outlining,rtask-from-gpu,rtask-schedule{num-veus=2},rtask-minimize-barriers,rtask-plan-memory,rtask-verify-schedule)' | filecheck %s --check-prefix=SCHEDULE
// RUN: rammer-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(convert-linalg-to-parallel-loops,scf-parallel-loop-tiling{parallel-loop-tile-sizes=4,8 no-min-max-bounds=true},gpu-map-parallel-loops),convert-parallel-loops-to-gpu,gpu-kernel-outlining,rtask-from-gpu,rtask-schedule{num-veus=2},rtask-minimize-barriers,rtask-plan-memory,rtask-lower-to-gpu)' | filecheck %s --check-prefix=KERNEL
// RUN: rammer-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(convert-linalg-to-parallel-loops,scf-parallel-loop-tiling{parallel-loop-tile-sizes=4,8 no-min-max-bounds=true},gpu-map-parallel-loops),convert-parallel-loops-to-gpu,gpu-kernel-outlining,rtask-from-gpu,rtask-schedule{num-veus=2},rtask-minimize-barriers,rtask-plan-memory,rtask-lower-to-gpu,rtask-gpu-to-nvvm)' | filecheck %s --check-prefix=NVVM

// 2 x 3 blocks of 4 x 8 threads fill the product's tiles; rTasks count the rows of blocks first.
// CHECK: rtask.kernel @host_kernel rtasks(6) threads(32)
// CHECK-NEXT: updates 0[(d0 mod 2) * 4 +: 4, (d0 floordiv 2) * 8 +: 8]
// CHECK-NEXT: }
// CHECK: func.func private @host_kernel(%[[ID:.*]]: index, %[[OUT:.*]]: memref<8x24xf32>) attributes {rtask.block_threads = 32 : i64}

// The block's ids come from the rTask's, the thread's from its number in the persistent block.
// CHECK-NOT: scf.if
// CHECK: %[[THREAD:.*]] = gpu.thread_id x
// CHECK: %[[NARROW:.*]] = arith.index_cast %[[ID]] : index to i32
// CHECK: arith.remui %[[NARROW]], %c2
// CHECK: arith.divui %[[NARROW]], %c2
// CHECK: memref.store %{{.*}}, %[[OUT]]
// CHECK-NOT: gpu.block_id

// The product reads rows and columns, and what is in its tile already.
// CHECK: rtask.kernel @host_kernel_0.host_kernel rtasks(6)
// CHECK-NEXT: reads 0[(d0 mod 2) * 4 +: 4, 0 +: 16]
// CHECK-NEXT: reads 1[0 +: 16, (d0 floordiv 2) * 8 +: 8]
// CHECK-NEXT: reads 2[(d0 mod 2) * 4 +: 4, (d0 floordiv 2) * 8 +: 8]
// CHECK-NEXT: updates 2[(d0 mod 2) * 4 +: 4, (d0 floordiv 2) * 8 +: 8]

// Sums of rows: blocks of 4 threads, of the 32 that the persistent block has.
// CHECK: rtask.kernel @host_kernel_1.host_kernel rtasks(2)
// CHECK: updates 1[d0 * 4 +: 4]
// CHECK: %[[THREAD:.*]] = gpu.thread_id x
// CHECK: %[[OWN:.*]] = arith.cmpi ult, %[[THREAD]], %c4
// CHECK: scf.if %[[OWN]] {

// An argument that is written keeps what it holds; the other one is an input.
// CHECK-LABEL: func.func @host
// CHECK-SAME: %[[A:.*]]: memref<8x16xf32>, %[[B:.*]]: memref<16x24xf32>, %[[S:.*]]: memref<8xf32> {rtask.inout}
// CHECK: %[[C:.*]] = memref.alloc() : memref<8x24xf32>
// CHECK-NEXT: rtask.operator 0 @host_kernel(%[[C]])
// CHECK-NEXT: rtask.operator 1 @host_kernel_0.host_kernel(%[[A]], %[[B]], %[[C]])
// CHECK-NEXT: rtask.operator 2 @host_kernel_1.host_kernel(%[[C]], %[[S]])
// CHECK-NEXT: return
// CHECK-NOT: gpu.module

// A vEU goes from a tile's fill to its product without waiting; sums wait for the row's tiles.
// SCHEDULE: veu 0 {
// SCHEDULE: run @host_kernel[
// SCHEDULE-NEXT: run @host_kernel_0.host_kernel[
// SCHEDULE-NEXT: wait veu
// SCHEDULE-NEXT: run @host_kernel_1.host_kernel[

// What a flow's own launch of the kernel takes: inputs in the order of the host function's arguments,
// memory of the sizes given, the step counters zeroed once, and the schedule as the table's values.
// KERNEL: gpu.module @rammer attributes {rtask.launch = {arguments = ["input0", "input1", "input2", "constant", "arena", "scratches", "counters", "table"], blocks = 2 : i64, bytes = array<i64: 512, 1536, 32, {{.*}}>, table = array<i64: {{.*}}>, threads = 32 : i64}}
// KERNEL: gpu.func @rammer_program
// KERNEL-SAME: known_block_size = array<i32: 32, 1, 1>, known_grid_size = array<i32: 2, 1, 1>
// KERNEL: call @rkernel.host_kernel(
// KERNEL: call @rkernel.host_kernel_0.host_kernel(
// KERNEL: call @rammer_await
// KERNEL: call @rkernel.host_kernel_1.host_kernel(

// NVVM: llvm.func @rammer_program
// NVVM-SAME: nvvm.kernel
#all = affine_map<(d0, d1) -> (d0, d1)>
#rows = affine_map<(d0, d1) -> (d0)>
func.func @host(%a: memref<8x16xf32>, %b: memref<16x24xf32>, %s: memref<8xf32>) {
  %zero = arith.constant 0.0 : f32
  %c = memref.alloc() : memref<8x24xf32>
  linalg.fill ins(%zero : f32) outs(%c : memref<8x24xf32>)
  linalg.matmul ins(%a, %b : memref<8x16xf32>, memref<16x24xf32>) outs(%c : memref<8x24xf32>)
  linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%c : memref<8x24xf32>) outs(%s : memref<8xf32>) {
  ^bb0(%v: f32, %sum: f32):
    %n = arith.addf %v, %sum : f32
    linalg.yield %n : f32
  }
  memref.dealloc %c : memref<8x24xf32>
  return
}

// -----

// Blocks of 8 and of 64 threads. Around a barrier, spare threads follow the control flow, but all
// that touches memory is left to the block's own ones; shared memory is a buffer of the block.
// CHECK: rtask.kernel @k.sum rtasks(6) threads(8) shared_memory(32) barriers(4)
// CHECK-NEXT: reads 0[d0 +: 1, 0 +: 32]
// CHECK-NEXT: {{reads|updates}}
// CHECK-LABEL: func.func private @k.sum(
// CHECK-SAME: %[[ID:.*]]: index, %[[X:.*]]: memref<6x32xf32>
// CHECK: %[[TILE:.*]] = memref.alloc() : memref<8xf32>
// CHECK: %[[OWN:.*]] = arith.cmpi ult, %{{.*}}, %c8
// CHECK: %[[T:.*]] = arith.select %[[OWN]]
// CHECK: scf.for
// CHECK: scf.if %[[OWN]] {
// CHECK-NEXT: %[[V:.*]] = memref.load %[[X]][%[[ID]], %{{.*}}]
// CHECK-NEXT: memref.store %[[V]], %[[TILE]][%[[T]]]
// CHECK-NEXT: }
// CHECK-NEXT: gpu.barrier
// CHECK: scf.if %[[OWN]] {
// CHECK: scf.for
// CHECK: }
// CHECK: gpu.barrier
// CHECK-NEXT: }
// CHECK-NEXT: return

// The same kernel twice is one rKernel; other sizes or constants make another.
// CHECK-LABEL: func.func private @k.scale(
// CHECK-NOT: scf.if
// CHECK-LABEL: func.func private @k.scale.0(
// CHECK: rtask.operator {{[0-9]+}} @k.sum(
// CHECK-NEXT: rtask.operator {{[0-9]+}} @k.scale(
// CHECK-NEXT: rtask.operator {{[0-9]+}} @k.scale.0(
// CHECK-NEXT: rtask.operator {{[0-9]+}} @k.scale(
module attributes {gpu.container_module} {
func.func @sums(%x: memref<6x32xf32>, %s: memref<6x64xf32>) {
  %c1 = arith.constant 1 : index
  %c6 = arith.constant 6 : index
  %c8 = arith.constant 8 : index
  %c64 = arith.constant 64 : index
  %f = arith.constant 2.0 : f32
  %g = arith.constant 3.0 : f32
  gpu.launch_func @k::@sum blocks in (%c6, %c1, %c1) threads in (%c8, %c1, %c1)
      args(%x : memref<6x32xf32>, %s : memref<6x64xf32>)
  gpu.launch_func @k::@scale blocks in (%c6, %c1, %c1) threads in (%c64, %c1, %c1)
      args(%s : memref<6x64xf32>, %f : f32)
  gpu.launch_func @k::@scale blocks in (%c6, %c1, %c1) threads in (%c64, %c1, %c1)
      args(%s : memref<6x64xf32>, %g : f32)
  gpu.launch_func @k::@scale blocks in (%c6, %c1, %c1) threads in (%c64, %c1, %c1)
      args(%s : memref<6x64xf32>, %f : f32)
  return
}
gpu.module @k {
gpu.func @sum(%x: memref<6x32xf32>, %s: memref<6x64xf32>)
    workgroup(%tile: memref<8xf32, #gpu.address_space<workgroup>>) kernel {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c8 = arith.constant 8 : index
  %b = gpu.block_id x
  %t = gpu.thread_id x
  scf.for %r = %c0 to %c2 step %c1 {
    %j = affine.apply affine_map<(r)[t] -> (r * 24 + t)>(%r)[%t]
    %v = memref.load %x[%b, %j] : memref<6x32xf32>
    memref.store %v, %tile[%t] : memref<8xf32, #gpu.address_space<workgroup>>
    gpu.barrier
    scf.for %i = %c0 to %c8 step %c1 {
      %p = memref.load %tile[%i] : memref<8xf32, #gpu.address_space<workgroup>>
      %o = memref.load %s[%b, %t] : memref<6x64xf32>
      %q = arith.addf %o, %p : f32
      memref.store %q, %s[%b, %t] : memref<6x64xf32>
    }
    gpu.barrier
  }
  gpu.return
}
gpu.func @scale(%s: memref<6x64xf32>, %f: f32) kernel {
  %b = gpu.block_id x
  %t = gpu.thread_id x
  %v = memref.load %s[%b, %t] : memref<6x64xf32>
  %w = arith.mulf %v, %f : f32
  memref.store %w, %s[%b, %t] : memref<6x64xf32>
  gpu.return
}
}
}
