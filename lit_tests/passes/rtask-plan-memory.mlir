// RUN: rammer-opt %s --rtask-plan-memory --rtask-verify-schedule | filecheck %s

// A chain of three intermediates: the third takes the place of the first. What nobody uses is gone, with its views.
// CHECK: func.func @main(%[[X:.*]]: memref<4x16xf32>, %[[Y:.*]]: memref<4x16xf32> {rtask.output}, %[[ARENA:.*]]: memref<512xi8> {rtask.arena, rtask.intermediate_bytes = 768 : i64, rtask.live_bytes = {{[0-9]+}} : i64})
// CHECK-NOT: memref.alloc
// CHECK-NOT: memref.subview
// CHECK: %[[START:.*]] = arith.constant 0 : index
// CHECK: %[[A:.*]] = memref.view %[[ARENA]][%[[START]]][]
// CHECK: %[[SECOND:.*]] = arith.constant 256 : index
// CHECK: %[[B:.*]] = memref.view %[[ARENA]][%[[SECOND]]][]
// CHECK: %[[AGAIN:.*]] = arith.constant 0 : index
// CHECK: %[[C:.*]] = memref.view %[[ARENA]][%[[AGAIN]]][]
// CHECK: "rtask.run"(%[[X]], %[[A]])
// CHECK: "rtask.run"(%[[A]], %[[B]])
// CHECK: "rtask.run"(%[[B]], %[[C]])
// CHECK: "rtask.run"(%[[C]], %[[Y]])
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
  %c = memref.alloc() : memref<4x16xf32>
  %unused = memref.alloc() : memref<4x16xf32>
  %view = memref.collapse_shape %unused [[0, 1]] : memref<4x16xf32> into memref<64xf32>
  %part = memref.subview %view[0] [16] [1] : memref<64xf32> to memref<16xf32>
  "rtask.program"() ({
    "rtask.veu"() ({
      "rtask.run"(%x, %a) {kernel = @rows, operator_id = 0 : i64, first = 0 : i64, count = 4 : i64}
          : (memref<4x16xf32>, memref<4x16xf32>) -> ()
      "rtask.run"(%a, %b) {kernel = @rows, operator_id = 1 : i64, first = 0 : i64, count = 4 : i64}
          : (memref<4x16xf32>, memref<4x16xf32>) -> ()
      "rtask.run"(%b, %c) {kernel = @rows, operator_id = 2 : i64, first = 0 : i64, count = 4 : i64}
          : (memref<4x16xf32>, memref<4x16xf32>) -> ()
      "rtask.run"(%c, %y) {kernel = @rows, operator_id = 3 : i64, first = 0 : i64, count = 4 : i64}
          : (memref<4x16xf32>, memref<4x16xf32>) -> ()
    }) {id = 0 : i64} : () -> ()
  }) {device = "cpu", num_veus = 1 : i64} : () -> ()
  return
}
