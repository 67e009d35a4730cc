// RUN: rammer-opt %s --split-input-file --rtask-map-to-threads | filecheck %s

// The threads that sum up products also add the bias and apply the activation, in registers: the
// output is never read, each result is stored once, and the only barriers are those of the chunks.
// CHECK: func.func @dense(%{{.*}}: index, %{{.*}}: memref<64x64xf32>, %{{.*}}: memref<64x64xf32>, %[[BIAS:.*]]: memref<64xf32>, %[[OUT:.*]]: memref<64x64xf32>,
// CHECK-NOT: memref.store %{{.*}}, %[[OUT]]
// CHECK-NOT: vector.load %[[OUT]]
// CHECK: %[[SUMS:.*]]:16 = scf.for
// CHECK: %[[SUM:.*]] = arith.addf %{{.*}}, %[[SUMS]]#0
// CHECK: %[[TERMS:.*]] = vector.load %[[BIAS]]
// CHECK: %[[TERM:.*]] = vector.extract %[[TERMS]][0]
// CHECK: %[[ACTIVE:.*]] = arith.addf %[[SUM]], %[[TERM]]
// CHECK: arith.maximumf %[[ACTIVE]]
// CHECK-COUNT-8: vector.store %{{.*}}, %[[OUT]]
// CHECK-NOT: %[[OUT]]
// CHECK-NOT: gpu.barrier
// CHECK: return
func.func @dense(%id: index, %a: memref<64x64xf32> {rtask.alignment = 16 : i64}, %b: memref<64x64xf32> {rtask.alignment = 16 : i64}, %bias: memref<64xf32> {rtask.alignment = 16 : i64}, %c: memref<64x64xf32> {rtask.alignment = 16 : i64}) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%c : memref<64x64xf32>)
  linalg.matmul ins(%a, %b : memref<64x64xf32>, memref<64x64xf32>) outs(%c : memref<64x64xf32>)
  linalg.generic {
      indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (n)>, affine_map<(m, n) -> (m, n)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%c, %bias : memref<64x64xf32>, memref<64xf32>) outs(%c : memref<64x64xf32>) {
  ^bb0(%sum: f32, %term: f32, %out: f32):
    %added = arith.addf %sum, %term : f32
    %active = arith.maximumf %added, %zero : f32
    linalg.yield %active : f32
  }
  return
}

// -----

// The bias is the initial value; wider sums than the results need no memory.
// CHECK: func.func @narrow(%{{.*}}: index, %{{.*}}: memref<8x16xf16>, %[[BIAS:.*]]: memref<8xf32>, %[[OUT:.*]]: memref<8xf16>, %{{.*}}: memref<16xi8, #gpu.address_space<workgroup>>
// CHECK-NOT: memref.view
// CHECK: %[[SUM:.*]] = scf.for
// CHECK: gpu.shuffle
// CHECK: scf.if
// CHECK: %[[TERM:.*]] = memref.load %[[BIAS]]
// CHECK: %[[ALL:.*]] = arith.addf %[[TERM]],
// CHECK: %[[NARROW:.*]] = arith.truncf %[[ALL]]
// CHECK: memref.store %[[NARROW]], %[[OUT]]
// CHECK-NOT: gpu.barrier
// CHECK: return
func.func @narrow(%id: index, %a: memref<8x16xf16>, %bias: memref<8xf32>, %c: memref<8xf16>) {
  %sums = memref.alloc() : memref<8xf32>
  memref.copy %bias, %sums : memref<8xf32> to memref<8xf32>
  linalg.generic {
      indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m)>],
      iterator_types = ["parallel", "reduction"]}
      ins(%a : memref<8x16xf16>) outs(%sums : memref<8xf32>) {
  ^bb0(%in: f16, %out: f32):
    %wide = arith.extf %in : f16 to f32
    %sum = arith.addf %out, %wide : f32
    linalg.yield %sum : f32
  }
  linalg.generic {
      indexing_maps = [affine_map<(m) -> (m)>, affine_map<(m) -> (m)>], iterator_types = ["parallel"]}
      ins(%sums : memref<8xf32>) outs(%c : memref<8xf16>) {
  ^bb0(%in: f32, %out: f16):
    %narrow = arith.truncf %in : f32 to f16
    linalg.yield %narrow : f16
  }
  return
}

// -----

// Sums that are used twice stay in memory.
// CHECK: func.func @twice
// CHECK: %[[SUMS:.*]] = memref.view
// CHECK: memref.store %{{.*}}, %[[SUMS]]
// CHECK: gpu.barrier
// CHECK: memref.load %[[SUMS]]
// CHECK: gpu.barrier
// CHECK: memref.load %[[SUMS]]
func.func @twice(%id: index, %a: memref<8x16xf32>, %b: memref<8xf32>, %c: memref<8xf32>) {
  %zero = arith.constant 0.0 : f32
  %sums = memref.alloc() : memref<8xf32>
  linalg.fill ins(%zero : f32) outs(%sums : memref<8xf32>)
  linalg.generic {
      indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m)>],
      iterator_types = ["parallel", "reduction"]}
      ins(%a : memref<8x16xf32>) outs(%sums : memref<8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %sum = arith.addf %out, %in : f32
    linalg.yield %sum : f32
  }
  linalg.exp ins(%sums : memref<8xf32>) outs(%b : memref<8xf32>)
  linalg.negf ins(%sums : memref<8xf32>) outs(%c : memref<8xf32>)
  return
}

// -----

// Other threads may still read the input when a thread has its results, so these are stored first.
// CHECK: func.func @over_an_input(%{{.*}}: index, %[[A:[^:]*]]: memref<16x16xf32>
// CHECK: scf.for
// CHECK: scf.for
// CHECK: memref.load %[[A]]
// CHECK: gpu.barrier
// CHECK: memref.store %{{.*}}, %[[A]]
func.func @over_an_input(%id: index, %a: memref<16x16xf32>, %b: memref<16x16xf32>) {
  %zero = arith.constant 0.0 : f32
  %sums = memref.alloc() : memref<16x16xf32>
  linalg.fill ins(%zero : f32) outs(%sums : memref<16x16xf32>)
  linalg.matmul ins(%a, %b : memref<16x16xf32>, memref<16x16xf32>) outs(%sums : memref<16x16xf32>)
  linalg.exp ins(%sums : memref<16x16xf32>) outs(%a : memref<16x16xf32>)
  return
}
