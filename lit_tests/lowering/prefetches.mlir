// RUN: rammer-opt %s --split-input-file --rtask-vectorize-kernels | filecheck %s

// A long sum over 128 blocks of 16 channels goes on in pieces of 8 blocks. Each step asks for what
// lies one piece ahead: of 14 pixels another line each step, and, in four micro tiles one part of it
// after the other, for a line of weights in each of two runs of memory.
// CHECK: func.func private @piece
// CHECK: scf.for
// CHECK: scf.for
// CHECK: scf.for {{.*}} iter_args
// CHECK: scf.for {{.*}} iter_args
// CHECK-DAG: %[[LINE:.*]] = arith.muli %[[POINT:.*]], %c15
// CHECK: memref.prefetch {{.*}}, read, locality<2>, data
// CHECK: %[[TILE:.*]] = arith.floordivsi %{{.*}}, %c14
// CHECK: %[[PART:.*]] = arith.constant 512 : index
// CHECK: arith.muli %[[TILE]], %[[PART]]
// CHECK-COUNT-2: memref.prefetch {{.*}}, read, locality<2>, data
// CHECK-NOT: memref.prefetch
// CHECK: scf.yield
#image = affine_map<(k, p, l, c, m) -> (c, p, m)>
#weights = affine_map<(k, p, l, c, m) -> (k, c, m, l)>
#result = affine_map<(k, p, l, c, m) -> (k, p, l)>
"rtask.kernel"() {barriers = 0 : i64, bytes = 1 : i64, function = @piece, num_rtasks = 1 : i64,
  operations = 1 : i64, reads = [], shared_memory = 0 : i64, threads = 1 : i64,
  writes = [{argument = 2 : i64, offsets = affine_map<(d0) -> (0, 0, 0)>, sizes = array<i64: 2, 56, 16>}]} : () -> ()
func.func private @piece(%id: index, %x: memref<128x56x16xf32>, %w: memref<2x128x16x16xf32>, %y: memref<2x56x16xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%y : memref<2x56x16xf32>)
  linalg.generic {indexing_maps = [#image, #weights, #result],
                  iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
    ins(%x, %w : memref<128x56x16xf32>, memref<2x128x16x16xf32>) outs(%y : memref<2x56x16xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  }
  return
}

// -----

// A sum of 32 blocks is done at once, and asks for the next panel of weights alone, one run.
// CHECK: func.func private @panel
// CHECK-COUNT-1: memref.prefetch {{.*}}, read, locality<2>, data
// CHECK-NOT: memref.prefetch
#image = affine_map<(k, p, l, c, m) -> (c, p, m)>
#weights = affine_map<(k, p, l, c, m) -> (k, c, m, l)>
#result = affine_map<(k, p, l, c, m) -> (k, p, l)>
"rtask.kernel"() {barriers = 0 : i64, bytes = 1 : i64, function = @panel, num_rtasks = 1 : i64,
  operations = 1 : i64, reads = [], shared_memory = 0 : i64, threads = 1 : i64,
  writes = [{argument = 2 : i64, offsets = affine_map<(d0) -> (0, 0, 0)>, sizes = array<i64: 4, 56, 16>}]} : () -> ()
func.func private @panel(%id: index, %x: memref<32x56x16xf32>, %w: memref<4x32x16x16xf32>, %y: memref<4x56x16xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%y : memref<4x56x16xf32>)
  linalg.generic {indexing_maps = [#image, #weights, #result],
                  iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
    ins(%x, %w : memref<32x56x16xf32>, memref<4x32x16x16xf32>) outs(%y : memref<4x56x16xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  }
  return
}

// -----

// A panel of two blocks is read fast enough.
// CHECK: func.func private @small
// CHECK-NOT: memref.prefetch
#image = affine_map<(k, p, l, c, m) -> (c, p, m)>
#weights = affine_map<(k, p, l, c, m) -> (k, c, m, l)>
#result = affine_map<(k, p, l, c, m) -> (k, p, l)>
"rtask.kernel"() {barriers = 0 : i64, bytes = 1 : i64, function = @small, num_rtasks = 1 : i64,
  operations = 1 : i64, reads = [], shared_memory = 0 : i64, threads = 1 : i64,
  writes = [{argument = 2 : i64, offsets = affine_map<(d0) -> (0, 0, 0)>, sizes = array<i64: 4, 56, 16>}]} : () -> ()
func.func private @small(%id: index, %x: memref<2x56x16xf32>, %w: memref<4x2x16x16xf32>, %y: memref<4x56x16xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%y : memref<4x56x16xf32>)
  linalg.generic {indexing_maps = [#image, #weights, #result],
                  iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
    ins(%x, %w : memref<2x56x16xf32>, memref<4x2x16x16xf32>) outs(%y : memref<4x56x16xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  }
  return
}

// -----

// A row times 8 MiB of weights in panels of 32 columns: a micro tile alone reads a panel, and asks for
// the two cache lines that it reads itself eight steps of the sum, 256 elements, later.
// CHECK: func.func private @row
// CHECK: scf.for {{.*}} iter_args
// CHECK: %[[AHEAD:.*]] = arith.constant 256 : index
// CHECK: %[[LATER:.*]] = arith.addi %{{.*}}, %[[AHEAD]]
// CHECK: memref.prefetch %{{.*}}[%[[LATER]]], read, locality<3>, data
// CHECK-COUNT-1: memref.prefetch {{.*}}, read, locality<3>, data
// CHECK-NOT: memref.prefetch
// CHECK: scf.yield
#row = affine_map<(l, c) -> (c)>
#weights = affine_map<(l, c) -> (c, l)>
#result = affine_map<(l, c) -> (l)>
"rtask.kernel"() {barriers = 0 : i64, bytes = 1 : i64, function = @row, num_rtasks = 64 : i64,
  operations = 1 : i64, reads = [], shared_memory = 0 : i64, threads = 1 : i64,
  writes = [{argument = 2 : i64, offsets = affine_map<(d0) -> (d0, 0)>, sizes = array<i64: 1, 32>}]} : () -> ()
func.func private @row(%id: index, %x: memref<1024xf32>, %w: memref<64x1024x32xf32>, %y: memref<64x32xf32>) {
  %zero = arith.constant 0.0 : f32
  %panel = memref.subview %w[%id, 0, 0] [1, 1024, 32] [1, 1, 1]
    : memref<64x1024x32xf32> to memref<1024x32xf32, strided<[32, 1], offset: ?>>
  %out = memref.subview %y[%id, 0] [1, 32] [1, 1] : memref<64x32xf32> to memref<32xf32, strided<[1], offset: ?>>
  linalg.fill ins(%zero : f32) outs(%out : memref<32xf32, strided<[1], offset: ?>>)
  linalg.generic {indexing_maps = [#row, #weights, #result], iterator_types = ["parallel", "reduction"]}
    ins(%x, %panel : memref<1024xf32>, memref<1024x32xf32, strided<[32, 1], offset: ?>>)
    outs(%out : memref<32xf32, strided<[1], offset: ?>>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  }
  return
}

// -----

// 2 MiB may stay in the second-level cache: prefetches would take the place of loads.
// CHECK: func.func private @cached
// CHECK-NOT: memref.prefetch
#row = affine_map<(l, c) -> (c)>
#weights = affine_map<(l, c) -> (c, l)>
#result = affine_map<(l, c) -> (l)>
"rtask.kernel"() {barriers = 0 : i64, bytes = 1 : i64, function = @cached, num_rtasks = 16 : i64,
  operations = 1 : i64, reads = [], shared_memory = 0 : i64, threads = 1 : i64,
  writes = [{argument = 2 : i64, offsets = affine_map<(d0) -> (d0, 0)>, sizes = array<i64: 1, 32>}]} : () -> ()
func.func private @cached(%id: index, %x: memref<1024xf32>, %w: memref<16x1024x32xf32>, %y: memref<16x32xf32>) {
  %zero = arith.constant 0.0 : f32
  %panel = memref.subview %w[%id, 0, 0] [1, 1024, 32] [1, 1, 1]
    : memref<16x1024x32xf32> to memref<1024x32xf32, strided<[32, 1], offset: ?>>
  %out = memref.subview %y[%id, 0] [1, 32] [1, 1] : memref<16x32xf32> to memref<32xf32, strided<[1], offset: ?>>
  linalg.fill ins(%zero : f32) outs(%out : memref<32xf32, strided<[1], offset: ?>>)
  linalg.generic {indexing_maps = [#row, #weights, #result], iterator_types = ["parallel", "reduction"]}
    ins(%x, %panel : memref<1024xf32>, memref<1024x32xf32, strided<[32, 1], offset: ?>>)
    outs(%out : memref<32xf32, strided<[1], offset: ?>>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  }
  return
}
