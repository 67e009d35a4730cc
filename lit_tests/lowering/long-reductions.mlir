// RUN: rammer-opt %s --split-input-file --rtask-vectorize-kernels | filecheck %s

// A panel of 1024 x 32 weights is larger than the first level of cache: the sum goes on outside, in
// pieces of 128, and registers hold 14 x 32 sums of one piece.
// CHECK: func.func private @long
// CHECK-DAG: %[[PIECE:.*]] = arith.constant 128 : index
// CHECK-DAG: %[[ALL:.*]] = arith.constant 1024 : index
// CHECK: scf.for %{{.*}} = %{{.*}} to %[[ALL]] step %[[PIECE]] {
// CHECK: scf.for
// CHECK: vector.load
// CHECK: scf.for {{.*}} iter_args
#a = affine_map<(i, j, k) -> (i, k)>
#b = affine_map<(i, j, k) -> (k, j)>
#c = affine_map<(i, j, k) -> (i, j)>
"rtask.kernel"() {barriers = 0 : i64, bytes = 1 : i64, function = @long, num_rtasks = 1 : i64,
  operations = 1 : i64, reads = [], shared_memory = 0 : i64, threads = 1 : i64,
  writes = [{argument = 2 : i64, offsets = affine_map<(d0) -> (0, 0)>, sizes = array<i64: 56, 32>}]} : () -> ()
func.func private @long(%id: index, %x: memref<56x1024xf32>, %w: memref<1024x32xf32>, %y: memref<56x32xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%y : memref<56x32xf32>)
  linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x, %w : memref<56x1024xf32>, memref<1024x32xf32>) outs(%y : memref<56x32xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  }
  return
}

// -----

// Half the length stays in one piece, and starts from zeros in registers.
// CHECK: func.func private @short
// CHECK-NOT: vector.load
// CHECK: scf.for %{{.*}} = %c0 to %c512 step %c1 iter_args
#a = affine_map<(i, j, k) -> (i, k)>
#b = affine_map<(i, j, k) -> (k, j)>
#c = affine_map<(i, j, k) -> (i, j)>
"rtask.kernel"() {barriers = 0 : i64, bytes = 1 : i64, function = @short, num_rtasks = 1 : i64,
  operations = 1 : i64, reads = [], shared_memory = 0 : i64, threads = 1 : i64,
  writes = [{argument = 2 : i64, offsets = affine_map<(d0) -> (0, 0)>, sizes = array<i64: 14, 32>}]} : () -> ()
func.func private @short(%id: index, %x: memref<14x512xf32>, %w: memref<512x32xf32>, %y: memref<14x32xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%y : memref<14x32xf32>)
  linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x, %w : memref<14x512xf32>, memref<512x32xf32>) outs(%y : memref<14x32xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  }
  return
}
