// RUN: rm -f %t.sqlite
// RUN: rammer-opt %s --rtask-profile-kernels=cache=%t.sqlite | filecheck %s
// RUN: rammer-opt %s --rtask-profile-kernels=cache=%t.sqlite -o %t.again
// RUN: rammer-opt %s --rtask-profile-kernels=cache=%t.sqlite | diff - %t.again

// Measured seconds of an rTask, with its memory in cache, beyond it, and far away. The second time
// they come from the cache, so that they are the same to the last digit.
// CHECK: rtask.kernel @double {{.*}}seconds({{[0-9.eE+-]+}}, {{[0-9.eE+-]+}}, {{[0-9.eE+-]+}})
"rtask.kernel"() {function = @double, num_rtasks = 2 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 64 : i64, bytes = 512 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 64)>, sizes = array<i64: 64>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 64)>, sizes = array<i64: 64>}]
} : () -> ()
func.func private @double(%id: index, %a: memref<128xf32>, %out: memref<128xf32>) {
  %c64 = arith.constant 64 : index
  %start = arith.muli %id, %c64 : index
  %from = memref.subview %a[%start] [64] [1] : memref<128xf32> to memref<64xf32, strided<[1], offset: ?>>
  %to = memref.subview %out[%start] [64] [1] : memref<128xf32> to memref<64xf32, strided<[1], offset: ?>>
  linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
      iterator_types = ["parallel"]}
      ins(%from : memref<64xf32, strided<[1], offset: ?>>)
      outs(%to : memref<64xf32, strided<[1], offset: ?>>) {
  ^bb0(%x: f32, %y: f32):
    %sum = arith.addf %x, %x : f32
    linalg.yield %sum : f32
  }
  return
}
func.func @main(%x: memref<128xf32>, %y: memref<128xf32> {rtask.output}) {
  "rtask.operator"(%x, %y) {kernels = [@double], operator_id = 0 : i64}
      : (memref<128xf32>, memref<128xf32>) -> ()
  return
}
