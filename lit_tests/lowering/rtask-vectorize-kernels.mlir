// RUN: rammer-opt %s --rtask-vectorize-kernels=vector-bits=512 --split-input-file | filecheck %s

// A matrix product: the fill becomes the accumulators' start, K runs inside, stores come once.
// CHECK-LABEL: func.func private @matmul
// CHECK-NOT: linalg
// CHECK: %[[ZERO:.*]] = vector.broadcast %{{.*}} : f32 to vector<16xf32>
// CHECK: scf.for {{.*}} iter_args(%{{.*}} = %[[ZERO]],
// CHECK: memref.load
// CHECK: vector.load {{.*}} vector<16xf32>
// CHECK: arith.mulf {{.*}} fastmath<contract> : vector<16xf32>
// CHECK-NEXT: arith.addf {{.*}} fastmath<contract> : vector<16xf32>
// CHECK: scf.yield
// CHECK: vector.store {{.*}} vector<16xf32>
func.func private @matmul(%id: index, %a: memref<8x64xf32>, %b: memref<64x32xf32>,
                          %c: memref<8x32xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%c : memref<8x32xf32>)
  linalg.matmul ins(%a, %b : memref<8x64xf32>, memref<64x32xf32>) outs(%c : memref<8x32xf32>)
  return
}

// -----

// A tail of 3 lanes is masked. The exponentials of both registers are computed together.
// CHECK-LABEL: func.func private @tail
// CHECK: %[[MASK:.*]] = vector.constant_mask [3] : vector<16xi1>
// CHECK: vector.maskedload {{.*}}, %[[MASK]],
// CHECK: math.exp {{.*}} : vector<32xf32>
// CHECK: vector.maskedstore {{.*}}, %[[MASK]],
func.func private @tail(%id: index, %x: memref<19xf32>, %y: memref<19xf32>) {
  linalg.exp ins(%x : memref<19xf32>) outs(%y : memref<19xf32>)
  return
}

// -----

// Of the eight registers of a micro tile, four are computed together, on a vector with all of their
// lanes; so is the remainder, whose last register is masked.
// CHECK-LABEL: func.func private @chains
// CHECK: scf.for
// CHECK-COUNT-4: vector.load {{.*}} vector<16xf32>
// CHECK: math.exp {{.*}} : vector<64xf32>
// CHECK-COUNT-4: vector.load {{.*}} vector<16xf32>
// CHECK: math.exp {{.*}} : vector<64xf32>
// CHECK-COUNT-8: vector.store {{.*}} vector<16xf32>
// CHECK: vector.maskedload
// CHECK: math.exp {{.*}} : vector<64xf32>
// CHECK: vector.maskedstore
func.func private @chains(%id: index, %x: memref<1019xf32>, %y: memref<1019xf32>) {
  linalg.exp ins(%x : memref<1019xf32>) outs(%y : memref<1019xf32>)
  return
}

// -----

// Sizes that only the run knows: a loop of full registers, then one masked register.
// CHECK-LABEL: func.func private @edge
// CHECK: %[[SIZE:.*]] = arith.minsi
// CHECK: arith.remui %[[SIZE]]
// CHECK: scf.for
// CHECK: vector.load
// CHECK: scf.for {{.*}} to %[[SIZE]]
// CHECK: %[[MASK:.*]] = vector.create_mask
// CHECK: vector.maskedload {{.*}}, %[[MASK]],
func.func private @edge(%id: index, %x: memref<100xf32>, %y: memref<100xf32>) {
  %first = affine.apply affine_map<(d0) -> (d0 * 64)>(%id)
  %n = affine.min affine_map<(d0) -> (64, d0 * -64 + 100)>(%id)
  %in = memref.subview %x[%first] [%n] [1]
      : memref<100xf32> to memref<?xf32, strided<[1], offset: ?>>
  %out = memref.subview %y[%first] [%n] [1]
      : memref<100xf32> to memref<?xf32, strided<[1], offset: ?>>
  linalg.negf ins(%in : memref<?xf32, strided<[1], offset: ?>>)
              outs(%out : memref<?xf32, strided<[1], offset: ?>>)
  return
}

// -----

// A sum along the contiguous dimension accumulates lane by lane.
// CHECK-LABEL: func.func private @row_sum
// CHECK: iter_args
// CHECK: arith.addf {{.*}} : vector<16xf32>
// CHECK: vector.reduction <add>
func.func private @row_sum(%id: index, %x: memref<256xf32>, %y: memref<f32>) {
  linalg.reduce { arith.addf } ins(%x : memref<256xf32>) outs(%y : memref<f32>) dimensions = [0]
  return
}

// -----

// A transposed operand of a sum is read in rows, and transposed between registers.
// CHECK-LABEL: func.func private @transposed_operand
// CHECK-NOT: vector.gather
// CHECK-COUNT-16: vector.load {{.*}} vector<16xf32>
// CHECK: vector.shuffle
// CHECK: arith.addf {{.*}} : vector<16xf32>
// CHECK: vector.store {{.*}} vector<16xf32>
func.func private @transposed_operand(%id: index, %x: memref<16x16xf32>, %y: memref<16x16xf32>,
                                      %z: memref<16x16xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j, i)>,
                                   affine_map<(i, j) -> (i, j)>],
                  iterator_types = ["parallel", "parallel"]}
      ins(%x, %y : memref<16x16xf32>, memref<16x16xf32>) outs(%z : memref<16x16xf32>) {
  ^bb0(%a: f32, %b: f32, %old: f32):
    %c = arith.addf %a, %b : f32
    linalg.yield %c : f32
  }
  return
}

// -----

// A transpose reads and writes contiguously; the shuffles are between registers.
// CHECK-LABEL: func.func private @transpose
// CHECK-NOT: vector.gather
// CHECK-NOT: vector.scatter
// CHECK: vector.shuffle
// CHECK: vector.store {{.*}} vector<16xf32>
func.func private @transpose(%id: index, %x: memref<16x16xf32>, %y: memref<16x16xf32>) {
  linalg.transpose ins(%x : memref<16x16xf32>) outs(%y : memref<16x16xf32>) permutation = [1, 0]
  return
}

// -----

// Stride 2 is two contiguous loads, the second without the element beyond the last one.
// CHECK-LABEL: func.func private @every_second
// CHECK: vector.load
// CHECK: vector.constant_mask [15] : vector<16xi1>
// CHECK: vector.maskedload
// CHECK: vector.shuffle {{.*}} [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30]
func.func private @every_second(%id: index, %x: memref<31xf32>, %y: memref<16xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i * 2)>, affine_map<(i) -> (i)>],
                  iterator_types = ["parallel"]}
      ins(%x : memref<31xf32>) outs(%y : memref<16xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  }
  return
}

// -----

// Booleans are bytes; a temporary of run-time size gets its bound on the stack.
// CHECK-LABEL: func.func private @mask
// CHECK-SAME: memref<40xi8>
// CHECK: memref.alloca() {alignment = 64 : i64} : memref<8xf32>
// CHECK: arith.extui {{.*}} : vector<{{.*}}xi1> to vector<{{.*}}xi8>
func.func private @mask(%id: index, %x: memref<40xf32>, %m: memref<40xi1>) {
  %zero = arith.constant 0.0 : f32
  %n = affine.min affine_map<(d0) -> (8, d0)>(%id)
  %t = memref.alloc(%n) : memref<?xf32>
  linalg.fill ins(%zero : f32) outs(%t : memref<?xf32>)
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
                  iterator_types = ["parallel"]}
      ins(%x : memref<40xf32>) outs(%m : memref<40xi1>) {
  ^bb0(%a: f32, %b: i1):
    %c = arith.cmpf ogt, %a, %zero : f32
    linalg.yield %c : i1
  }
  return
}

// -----

// A reduction with constant matrices is straight-line code: rows, then columns, without work for
// zeros and units, and without loops over them.
// CHECK-LABEL: func.func private @transform(
// CHECK: scf.for
// CHECK-NOT: scf.for
// CHECK-COUNT-9: vector.load
// CHECK-NOT: arith.mulf
// CHECK-COUNT-4: vector.store
#rows = affine_map<(a, b, s, l, i, j) -> (a, i)>
#columns = affine_map<(a, b, s, l, i, j) -> (b, j)>
#image = affine_map<(a, b, s, l, i, j) -> (i, 2 * s + j, l)>
#tiles = affine_map<(a, b, s, l, i, j) -> (a, b, s, l)>
memref.global "private" constant @matrix : memref<2x3xf32> = dense<[[1.0, 1.0, 0.0], [0.0, 1.0, -1.0]]>
func.func private @transform(%id: index, %image: memref<3x21x16xf32>, %out: memref<2x2x10x16xf32>) {
  %zero = arith.constant 0.0 : f32
  %matrix = memref.get_global @matrix : memref<2x3xf32>
  linalg.fill ins(%zero : f32) outs(%out : memref<2x2x10x16xf32>)
  linalg.generic {indexing_maps = [#rows, #columns, #image, #tiles],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%matrix, %matrix, %image : memref<2x3xf32>, memref<2x3xf32>, memref<3x21x16xf32>)
      outs(%out : memref<2x2x10x16xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %d: f32):
    %p = arith.mulf %a, %b : f32
    %q = arith.mulf %p, %c : f32
    %s = arith.addf %d, %q : f32
    linalg.yield %s : f32
  }
  return
}
