// RUN: rammer-opt %s --rtask-schedule | filecheck %s
// RUN: rammer-opt %s --rtask-schedule="policy=sequential num-veus=2" | filecheck %s --check-prefix=SEQUENTIAL
// RUN: rammer-opt %s --rtask-schedule=num-veus=1 | filecheck %s --check-prefix=ONE

// A chain of row-wise operators: each vEU keeps its rows, so that nothing waits.
// CHECK:      "rtask.program"() ({
// CHECK-NEXT:   "rtask.veu"() ({
// CHECK-NEXT:     "rtask.run"(%[[X:.*]], %[[T:.*]]) {count = 2 : i64, first = 0 : i64, kernel = @rows, operator_id = 0 : i64}
// CHECK-NEXT:     "rtask.run"(%[[T]], %[[Y:.*]]) {count = 2 : i64, first = 0 : i64, kernel = @rows, operator_id = 1 : i64}
// CHECK-NEXT:   }) {id = 0 : i64}
// CHECK-NEXT:   "rtask.veu"() ({
// CHECK-NEXT:     "rtask.run"(%[[X]], %[[T]]) {count = 2 : i64, first = 2 : i64, kernel = @rows, operator_id = 0 : i64}
// CHECK-NEXT:     "rtask.run"(%[[T]], %[[Y]]) {count = 2 : i64, first = 2 : i64, kernel = @rows, operator_id = 1 : i64}
// CHECK-NEXT:   }) {id = 1 : i64}
// CHECK-NEXT: }) {device = "cpu", num_veus = 2 : i64}

// Operator after operator: all of the first must be over before the second begins.
// SEQUENTIAL:      "rtask.run"({{.*}}) {count = 2 : i64, first = 0 : i64, kernel = @rows, operator_id = 0 : i64}
// SEQUENTIAL-NEXT: "rtask.barrier"() {waits = array<i64: 1, 1>}
// SEQUENTIAL-NEXT: "rtask.run"({{.*}}) {count = 2 : i64, first = 0 : i64, kernel = @rows, operator_id = 1 : i64}
// SEQUENTIAL:      "rtask.barrier"() {waits = array<i64: 0, 1>}

// ONE:      "rtask.run"({{.*}}) {count = 4 : i64, first = 0 : i64, kernel = @rows, operator_id = 0 : i64}
// ONE-NEXT: "rtask.run"({{.*}}) {count = 4 : i64, first = 0 : i64, kernel = @rows, operator_id = 1 : i64}
// ONE-NOT:  rtask.barrier
"rtask.kernel"() {function = @rows, num_rtasks = 4 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 50000 : i64, bytes = 128 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0, 0)>, sizes = array<i64: 1, 16>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0, 0)>, sizes = array<i64: 1, 16>}]
} : () -> ()
func.func private @rows(%id: index, %a: memref<4x16xf32>, %out: memref<4x16xf32>) {
  return
}
func.func @main(%x: memref<4x16xf32>, %y: memref<4x16xf32> {rtask.output}) {
  %t = memref.alloc() : memref<4x16xf32>
  "rtask.operator"(%x, %t) {kernels = [@rows], operator_id = 0 : i64}
      : (memref<4x16xf32>, memref<4x16xf32>) -> ()
  "rtask.operator"(%t, %y) {kernels = [@rows], operator_id = 1 : i64}
      : (memref<4x16xf32>, memref<4x16xf32>) -> ()
  return
}
