// RUN: rammer-opt %s --split-input-file --rtask-map-to-threads | filecheck %s
// RUN: rammer-opt %s --split-input-file --rtask-map-to-threads=async-copies=true | filecheck %s --check-prefix=ASYNC
// RUN: rammer-opt %s --split-input-file --rtask-map-to-threads | filecheck %s --check-prefix=PLAIN
// RUN: rammer-opt %s --split-input-file --rtask-map-to-threads=tf32=true | filecheck %s --check-prefix=TF32
// RUN: rammer-opt %s --split-input-file --rtask-map-to-threads=matrix-unit=mfma | filecheck %s --check-prefix=MFMA

// 32 results for 256 threads: eight lanes share each, and all lanes take part in the exchange. The
// temporary is shared; a block barrier stands between producer and consumer.
// CHECK: func.func @sums(%{{.*}}: index, %[[IN:.*]]: memref<8x4x600xf32>, %[[OUT:.*]]: memref<8x600xf32>, %[[SHARED:.*]]: memref<128xi8, #gpu.address_space<workgroup>>, %{{.*}}: memref<16xi8>)
// CHECK: %[[THREAD:.*]] = gpu.thread_id x
// CHECK: %[[TEMPORARY:.*]] = memref.view %[[SHARED]]
// CHECK: %[[GROUP:.*]] = arith.divui %[[THREAD]]
// CHECK: %[[LANE:.*]] = arith.remui %[[THREAD]]
// CHECK: scf.for
// CHECK: %[[PARTIAL:.*]] = scf.for {{.*}} = %[[LANE]] to {{.*}} iter_args
// CHECK: memref.load %[[IN]]
// CHECK: %[[A:.*]], %{{.*}} = gpu.shuffle xor %[[PARTIAL]]
// CHECK: %[[PAIR:.*]] = arith.addf %[[PARTIAL]], %[[A]]
// CHECK: gpu.shuffle xor %[[PAIR]]
// CHECK: gpu.shuffle xor
// CHECK: scf.if
// CHECK: memref.load %[[TEMPORARY]]
// CHECK: memref.store %{{.*}}, %[[TEMPORARY]]
// CHECK: gpu.barrier
// CHECK: scf.for %{{.*}} = %[[THREAD]] to
// CHECK: arith.remui
// CHECK: memref.store %{{.*}}, %[[OUT]]
// CHECK-NOT: gpu.barrier
// CHECK: return
func.func @sums(%id: index, %x: memref<8x4x600xf32>, %y: memref<8x600xf32>) {
  %sums = memref.alloc() : memref<8x4xf32>
  linalg.generic {
      indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (a, b)>],
      iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x : memref<8x4x600xf32>) outs(%sums : memref<8x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %sum = arith.addf %out, %in : f32
    linalg.yield %sum : f32
  }
  linalg.generic {
      indexing_maps = [affine_map<(a, b) -> (a, 3)>, affine_map<(a, b) -> (a, b)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%sums : memref<8x4xf32>) outs(%y : memref<8x600xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  }
  return
}

// A short product of many results: a thread has a tile of 4 by 4, and loads 8 elements for 16 products.
// CHECK: func.func @product(%{{.*}}: index, %[[A:.*]]: memref<64x3xf32>, %[[B:.*]]: memref<3x64xf32>, %[[C:.*]]: memref<64x64xf32>
// CHECK-COUNT-16: memref.load %[[C]]
// CHECK: scf.for
// CHECK-COUNT-8: memref.load
// CHECK-NOT: memref.load
// CHECK: scf.yield
// CHECK-COUNT-16: memref.store %{{.*}}, %[[C]]
func.func @product(%id: index, %a: memref<64x3xf32>, %b: memref<3x64xf32>, %c: memref<64x64xf32>) {
  linalg.matmul ins(%a, %b : memref<64x3xf32>, memref<3x64xf32>) outs(%c : memref<64x64xf32>)
  return
}

// A store outside of linalg is one thread's; a load that all threads share is kept before it.
// CHECK: func.func @scalars
// CHECK: scf.for
// CHECK: memref.load
// CHECK-NEXT: gpu.barrier
// CHECK: scf.if
// CHECK-NEXT: memref.store
// CHECK: gpu.barrier
// CHECK: scf.for
func.func @scalars(%id: index, %x: memref<8xf32>, %y: memref<8x3xf32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %eight = arith.constant 8 : index
  scf.for %i = %zero to %eight step %one {
    %value = memref.load %x[%i] : memref<8xf32>
    memref.store %value, %y[%i, %zero] : memref<8x3xf32>
    %row = memref.subview %y[%i, 0] [1, 3] [1, 1] : memref<8x3xf32> to memref<3xf32, strided<[1], offset: ?>>
    linalg.generic {indexing_maps = [affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
        outs(%row : memref<3xf32, strided<[1], offset: ?>>) {
    ^bb0(%out: f32):
      %sum = arith.addf %out, %value : f32
      linalg.yield %sum : f32
    }
  }
  return
}

// -----

// A longer product: chunks of 32 of the operands go to shared memory, two stages of each; while one
// is computed, the next is fetched. Rows of A are read four elements at a time, rows of B two.
// ASYNC: func.func @staged(%{{.*}}, %[[A:.*]]: memref<64x512xf32>, %[[B:.*]]: memref<512x64xf32>, %[[C:.*]]: memref<64x64xf32>, %[[SHARED:.*]]: memref<35840xi8, #gpu.address_space<workgroup>>
// ASYNC-DAG: %[[SA:.*]] = memref.view %[[SHARED]]{{.*}} to memref<4608xf32
// ASYNC-DAG: %[[SB:.*]] = memref.view %[[SHARED]]{{.*}} to memref<4352xf32
// ASYNC-COUNT-2: nvgpu.device_async_copy %[[A]]{{.*}}, %[[SA]]{{.*}}, 4 {bypassL1}
// ASYNC-COUNT-2: nvgpu.device_async_copy %[[B]]{{.*}}, %[[SB]]{{.*}}, 4 {bypassL1}
// ASYNC: nvgpu.device_async_wait
// ASYNC: gpu.barrier
// ASYNC: scf.for
// ASYNC: %[[MORE:.*]] = arith.cmpi ult
// ASYNC: scf.if %[[MORE]]
// ASYNC-NEXT: nvgpu.device_async_copy %[[A]]
// ASYNC: scf.for
// ASYNC: vector.load %{{.*}} {alignment = 16 : i64} : memref<4608xf32, #gpu.address_space<workgroup>>, vector<4xf32>
// ASYNC: vector.load %{{.*}} {alignment = 8 : i64} : memref<4352xf32, #gpu.address_space<workgroup>>, vector<2xf32>
// ASYNC: arith.addf
// ASYNC: nvgpu.device_async_wait
// ASYNC: gpu.barrier
// ASYNC: scf.yield
// ASYNC: vector.load %[[C]]{{.*}} {alignment = 8 : i64} : memref<64x64xf32>, vector<2xf32>
// ASYNC: vector.store %{{.*}}, %[[C]]{{.*}} {alignment = 8 : i64} : memref<64x64xf32>, vector<2xf32>
// ASYNC: return
// PLAIN: func.func @staged(%{{.*}}, %[[A:.*]]: memref<64x512xf32>
// PLAIN: scf.for
// PLAIN: %[[NEXT:.*]] = scf.if
// PLAIN-NEXT: vector.load %[[A]]
// PLAIN: scf.for
// PLAIN: arith.addf
// PLAIN: scf.if
// PLAIN-NEXT: vector.store %[[NEXT]]
// PLAIN: gpu.barrier
// PLAIN: scf.yield
func.func @staged(%id: index, %a: memref<64x512xf32> {rtask.alignment = 16 : i64}, %b: memref<512x64xf32> {rtask.alignment = 16 : i64}, %c: memref<64x64xf32> {rtask.alignment = 16 : i64}) {
  linalg.matmul ins(%a, %b : memref<64x512xf32>, memref<512x64xf32>) outs(%c : memref<64x64xf32>)
  return
}

// Few results: groups of threads have a part of each chunk; partial results meet in shared memory.
// Nothing is known of the alignment, so single elements are copied.
// ASYNC: func.func @narrow(%{{.*}}, %[[A:.*]]: memref<16x512xf32>, %[[B:.*]]: memref<512x32xf32>, %[[C:.*]]: memref<16x32xf32>
// ASYNC: nvgpu.device_async_copy %[[A]]{{.*}}, 1 :
// ASYNC: scf.for
// ASYNC: scf.for
// ASYNC: gpu.barrier
// ASYNC: %[[PARTIAL:.*]] = memref.view %{{.*}} to memref<4096xf32
// ASYNC-COUNT-16: memref.store %{{.*}}, %[[PARTIAL]]
// ASYNC: gpu.barrier
// ASYNC: scf.for
// ASYNC-COUNT-8: memref.load %[[PARTIAL]]
// ASYNC: memref.load %[[C]]
// ASYNC: memref.store %{{.*}}, %[[C]]
func.func @narrow(%id: index, %a: memref<16x512xf32>, %b: memref<512x32xf32>, %c: memref<16x32xf32>) {
  linalg.matmul ins(%a, %b : memref<16x512xf32>, memref<512x32xf32>) outs(%c : memref<16x32xf32>)
  return
}

// -----

// A vector times a matrix: 8 threads have 4 columns each, 32 rows of such threads divide
// the 256 elements of each. A thread loads its 8 elements of the matrix before it uses the first.
// Partial results meet in the warp by shuffles, then in shared memory.
// CHECK: func.func @columns(%{{.*}}, %[[X:.*]]: memref<256xf32>, %[[W:.*]]: memref<256x32xf32>, %[[Y:.*]]: memref<32xf32>, %[[SHARED:.*]]: memref<1024xi8, #gpu.address_space<workgroup>>
// CHECK: %[[THREAD:.*]] = gpu.thread_id x
// CHECK: %[[PARTIAL:.*]] = memref.view %[[SHARED]]
// CHECK: %[[COLUMN:.*]] = arith.remui %[[THREAD]]
// CHECK: %[[ROW:.*]] = arith.divui %[[THREAD]]
// CHECK: %[[FIRST:.*]] = arith.muli %[[ROW]]
// CHECK: %[[SUMS:.*]]:4 = scf.for {{.*}} = %[[FIRST]] to
// CHECK-COUNT-8: vector.load %[[W]]{{.*}} {alignment = 16 : i64} : memref<256x32xf32>, vector<4xf32>
// CHECK-COUNT-2: vector.load %[[X]]{{.*}} {alignment = 16 : i64} : memref<256xf32>, vector<4xf32>
// CHECK-NOT: load
// CHECK: gpu.shuffle xor %[[SUMS]]#0
// CHECK-COUNT-7: gpu.shuffle xor
// CHECK: scf.if
// CHECK-COUNT-4: memref.store %{{.*}}, %[[PARTIAL]]
// CHECK: gpu.barrier
// CHECK: scf.for %{{.*}} = %[[THREAD]] to
// CHECK-COUNT-8: memref.load %[[PARTIAL]]
// CHECK: memref.load %[[Y]]
// CHECK: memref.store %{{.*}}, %[[Y]]
func.func @columns(%id: index, %x: memref<256xf32> {rtask.alignment = 16 : i64}, %w: memref<256x32xf32> {rtask.alignment = 16 : i64}, %y: memref<32xf32>) {
  linalg.vecmat ins(%x, %w : memref<256xf32>, memref<256x32xf32>) outs(%y : memref<32xf32>)
  return
}

// -----

// With tf32, warps multiply f32 by matrix instructions, each element rounded before; else never.
// TF32: func.func @rounded
// TF32: %[[A:.*]] = memref.load %{{.*}} : memref<{{.*}}xf32, #gpu.address_space<workgroup>>
// TF32: %[[BITS:.*]] = nvvm.convert.float.to.tf32 %[[A]] {rnd = #nvvm.fp_rnd_mode<rna>}
// TF32: %[[ROUNDED:.*]] = arith.bitcast %[[BITS]] : i32 to f32
// TF32: %[[ROWS:.*]] = vector.from_elements %[[ROUNDED]], {{.*}} : vector<4x1xf32>
// TF32: nvgpu.mma.sync(%[[ROWS]], {{.*}} {mmaShape = [16, 8, 8], tf32Enabled} : (vector<4x1xf32>, vector<2x1xf32>, vector<2x2xf32>) -> vector<2x2xf32>
// PLAIN: func.func @rounded
// PLAIN-NOT: tf32
func.func @rounded(%id: index, %a: memref<64x64xf32>, %b: memref<64x64xf32>, %c: memref<64x64xf32>) {
  linalg.matmul ins(%a, %b : memref<64x64xf32>, memref<64x64xf32>) outs(%c : memref<64x64xf32>)
  return
}

// -----

// A wave of 64 lanes multiplies f16 by AMD's matrix instructions: of the left operand a lane takes
// four neighbors of a row at once, of the right one four elements of a column, one by one.
// MFMA: func.func @waves
// MFMA: %[[WAVE:.*]] = arith.constant 64 : index
// MFMA: %[[LANE:.*]] = arith.remui %{{.*}}, %[[WAVE]] : index
// MFMA: arith.remui %[[LANE]], %{{.*}} : index
// MFMA: arith.divui %[[LANE]], %{{.*}} : index
// MFMA: %[[ROW:.*]] = vector.load %{{.*}} {alignment = 8 : i64} : memref<{{.*}}xf16, #gpu.address_space<workgroup>>, vector<4xf16>
// MFMA-COUNT-4: memref.load %{{.*}} : memref<{{.*}}xf16, #gpu.address_space<workgroup>>
// MFMA: %[[COLUMN:.*]] = vector.from_elements %{{.*}} : vector<4xf16>
// MFMA: rocdl.mfma.f32.16x16x16f16 %[[ROW]], %[[COLUMN]], %{{.*}}, 0, 0, none : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
// PLAIN: func.func @waves
// PLAIN-NOT: mfma
func.func @waves(%id: index, %a: memref<64x64xf16>, %b: memref<64x64xf16>, %c: memref<64x64xf32>) {
  linalg.matmul ins(%a, %b : memref<64x64xf16>, memref<64x64xf16>) outs(%c : memref<64x64xf32>)
  return
}

// -----

// An operand whose neighbors lie along another loop than the result's is turned in shared memory:
// warps load rows of squares, and then read columns, 33 elements apart.
// CHECK-LABEL: func.func @turned
// CHECK-DAG: %[[SQUARE:.*]] = memref.view %{{.*}} : memref<{{.*}}xi8, #gpu.address_space<workgroup>> to memref<1056xf32, #gpu.address_space<workgroup>>
// CHECK: scf.for
// CHECK: %[[X:.*]] = memref.load %arg1
// CHECK-NEXT: memref.store %[[X]], %[[SQUARE]]
// CHECK: gpu.barrier
// CHECK: memref.load %[[SQUARE]]
// CHECK: memref.store %{{.*}}, %arg2
// CHECK: gpu.barrier
#turned = affine_map<(i, j) -> (j, i)>
#straight = affine_map<(i, j) -> (i, j)>
func.func @turned(%id: index, %x: memref<64x48xf32>, %y: memref<48x64xf32>) {
  linalg.generic {indexing_maps = [#turned, #straight], iterator_types = ["parallel", "parallel"]}
      ins(%x : memref<64x48xf32>) outs(%y : memref<48x64xf32>) {
  ^bb0(%a: f32, %b: f32):
    %n = arith.negf %a : f32
    linalg.yield %n : f32
  }
  return
}
