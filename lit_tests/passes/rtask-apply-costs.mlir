// RUN: rammer-opt %s --plugin %S/Inputs/slow_kernels.py --rtask-apply-costs='costs=slow-kernels num-veus=2' | filecheck %s
// RUN: not rammer-opt %s --rtask-apply-costs=costs=slow-kernels 2>&1 | filecheck %s --check-prefix=UNKNOWN

// What the function gives stands like a measurement; of the other rKernel the device's model decides.
// CHECK: rtask.kernel @slow{{.*}} seconds(2.000000e-06, 2.000000e-06, 2.000000e-06)
// CHECK: rtask.kernel @other
// CHECK-NOT: seconds
// UNKNOWN: error: unknown cost function 'slow-kernels'
"rtask.kernel"() {function = @slow, num_rtasks = 4 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 50000 : i64, bytes = 128 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0, 0)>, sizes = array<i64: 1, 16>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0, 0)>, sizes = array<i64: 1, 16>}]
} : () -> ()
func.func private @slow(%id: index, %a: memref<4x16xf32>, %out: memref<4x16xf32>) {
  return
}
"rtask.kernel"() {function = @other, num_rtasks = 1 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 50000 : i64, bytes = 512 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (0, 0)>, sizes = array<i64: 4, 16>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (0, 0)>, sizes = array<i64: 4, 16>}]
} : () -> ()
func.func private @other(%id: index, %a: memref<4x16xf32>, %out: memref<4x16xf32>) {
  return
}
func.func @main(%x: memref<4x16xf32>, %y: memref<4x16xf32> {rtask.output}) {
  "rtask.operator"(%x, %y) {kernels = [@slow, @other], operator_id = 0 : i64}
      : (memref<4x16xf32>, memref<4x16xf32>) -> ()
  return
}
