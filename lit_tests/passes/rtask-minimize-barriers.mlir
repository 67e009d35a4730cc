// RUN: rammer-opt %s --rtask-minimize-barriers --rtask-verify-schedule | filecheck %s

// A wait for an earlier rTask of the same vEU is implied by one for a later one, and one that was
// met already needs no barrier. What vEU 1 has seen, vEU 2 has seen after waiting for vEU 1.
// CHECK:      "rtask.veu"() ({
// CHECK-NEXT:   "rtask.run"
// CHECK-NEXT: }) {id = 0 : i64}
// CHECK-NEXT: "rtask.veu"() ({
// CHECK-NEXT:   "rtask.barrier"() {waits = array<i64: 0, 2>}
// CHECK-NEXT:   "rtask.run"(%{{.*}}, %{{.*}}) {count = 3 : i64, first = 0 : i64
// CHECK-NEXT:   "rtask.barrier"() {waits = array<i64: 0, 3>}
// CHECK-NEXT:   "rtask.run"(%{{.*}}, %{{.*}}) {count = 1 : i64, first = 3 : i64
// CHECK-NEXT: }) {id = 1 : i64}
// CHECK-NEXT: "rtask.veu"() ({
// CHECK-NEXT:   "rtask.barrier"() {waits = array<i64: 1, 3>}
// CHECK-NEXT:   "rtask.run"
// CHECK-NEXT: }) {id = 2 : i64}
"rtask.kernel"() {function = @rows, num_rtasks = 4 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 50000 : i64, bytes = 128 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0, 0)>, sizes = array<i64: 1, 16>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0, 0)>, sizes = array<i64: 1, 16>}]
} : () -> ()
func.func private @rows(%id: index, %a: memref<4x16xf32>, %out: memref<4x16xf32>) {
  return
}
func.func @main(%x: memref<4x16xf32>, %y: memref<4x16xf32> {rtask.output}) {
  %a = memref.alloc() : memref<4x16xf32>
  %b = memref.alloc() : memref<4x16xf32>
  "rtask.program"() ({
    "rtask.veu"() ({
      "rtask.run"(%x, %a) {kernel = @rows, operator_id = 0 : i64, first = 0 : i64, count = 4 : i64}
          : (memref<4x16xf32>, memref<4x16xf32>) -> ()
    }) {id = 0 : i64} : () -> ()
    "rtask.veu"() ({
      "rtask.barrier"() {waits = array<i64: 0, 0, 0, 2>} : () -> ()
      "rtask.run"(%a, %b) {kernel = @rows, operator_id = 1 : i64, first = 0 : i64, count = 3 : i64}
          : (memref<4x16xf32>, memref<4x16xf32>) -> ()
      "rtask.barrier"() {waits = array<i64: 0, 1>} : () -> ()
      "rtask.barrier"() {waits = array<i64: 0, 3>} : () -> ()
      "rtask.run"(%a, %b) {kernel = @rows, operator_id = 1 : i64, first = 3 : i64, count = 1 : i64}
          : (memref<4x16xf32>, memref<4x16xf32>) -> ()
    }) {id = 1 : i64} : () -> ()
    "rtask.veu"() ({
      "rtask.barrier"() {waits = array<i64: 0, 3, 1, 3>} : () -> ()
      "rtask.run"(%b, %y) {kernel = @rows, operator_id = 2 : i64, first = 0 : i64, count = 4 : i64}
          : (memref<4x16xf32>, memref<4x16xf32>) -> ()
    }) {id = 2 : i64} : () -> ()
  }) {device = "cpu", num_veus = 3 : i64} : () -> ()
  return
}
