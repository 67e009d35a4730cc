// Every operation, in every stage where it occurs, through text and bytecode.
// RUN: rammer-opt %s --split-input-file | filecheck %s
// RUN: rammer-opt %s --split-input-file | rammer-opt --split-input-file | filecheck %s

// An rOperator on tensors; operands and results have different types.
func.func private @split(%a: tensor<4x8xf32>, %b: tensor<8xi64>)
    -> (tensor<4x8xf32>, tensor<8xi64>) {
  return %a, %b : tensor<4x8xf32>, tensor<8xi64>
}
// CHECK-LABEL: func.func @operators
func.func @operators(%a: tensor<4x8xf32>, %b: tensor<8xi64>)
    -> (tensor<4x8xf32>, tensor<8xi64>) {
  // CHECK: %0:2 = "rtask.operator"(%arg0, %arg1) {kernels = [@split]} : (tensor<4x8xf32>, tensor<8xi64>) -> (tensor<4x8xf32>, tensor<8xi64>)
  %r:2 = "rtask.operator"(%a, %b) {kernels = [@split]}
      : (tensor<4x8xf32>, tensor<8xi64>) -> (tensor<4x8xf32>, tensor<8xi64>)
  return %r#0, %r#1 : tensor<4x8xf32>, tensor<8xi64>
}

// -----

// Tiled: two candidates; 10 rows in tiles of 4 leave a tile of 2.
// CHECK: "rtask.kernel"() {barriers = 0 : i64, bytes = 64 : i64, function = @rows_t0, num_rtasks = 3 : i64
"rtask.kernel"() {function = @rows_t0, num_rtasks = 3 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 64 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 4)>, sizes = array<i64: 4>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 4)>, sizes = array<i64: 4>}]
} : () -> ()
func.func private @rows_t0(%id: index, %a: tensor<10xf32>, %out: tensor<10xf32>) -> tensor<10xf32> {
  return %a : tensor<10xf32>
}
// CHECK: "rtask.kernel"
// CHECK-SAME: writes = [{argument = 1 : i64, offsets = #{{.*}}, sizes = array<i64: 1>}]
"rtask.kernel"() {function = @rows_t1, num_rtasks = 10 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 1 : i64, bytes = 16 : i64, reads = [],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0)>, sizes = array<i64: 1>}]
} : () -> ()
func.func private @rows_t1(%id: index, %a: tensor<10xf32>, %out: tensor<10xf32>) -> tensor<10xf32> {
  return %a : tensor<10xf32>
}
// CHECK-LABEL: func.func @tasks
func.func @tasks(%a: tensor<10xf32>) -> tensor<10xf32> {
  // CHECK: "rtask.operator"(%arg0) {kernels = [@rows_t0, @rows_t1]} : (tensor<10xf32>) -> tensor<10xf32>
  %r = "rtask.operator"(%a) {kernels = [@rows_t0, @rows_t1]} : (tensor<10xf32>) -> tensor<10xf32>
  return %r : tensor<10xf32>
}

// -----

// Updated in place: boxes that overlap, and do not cover the argument.
// CHECK: "rtask.kernel"
// CHECK-SAME: updates = [{argument = 0 : i64, offsets = #{{.*}}, sizes = array<i64: 3>}], writes = []
"rtask.kernel"() {function = @shift, num_rtasks = 3 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 64 : i64,
  reads = [], writes = [],
  updates = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 3>}]
} : () -> ()
func.func private @shift(%id: index, %a: memref<9xf32>) {
  return
}

// -----

// On memrefs, and scheduled. The operand's offset differs from the rKernel's argument, and so does
// the stride of a dimension of one element.
// CHECK: "rtask.kernel"
"rtask.kernel"() {function = @copy, num_rtasks = 4 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 0 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (0, d0)>, sizes = array<i64: 1, 1>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (0, d0)>, sizes = array<i64: 1, 1>}]
} : () -> ()
func.func private @copy(%id: index, %a: memref<1x4xf32, strided<[9, 2]>>, %out: memref<1x4xf32>) {
  return
}
// CHECK-LABEL: func.func @buffers
func.func @buffers(%a: memref<1x4xf32, strided<[8, 2], offset: 3>>, %y: memref<1x4xf32>) {
  // CHECK: "rtask.operator"(%arg0, %arg1) {kernels = [@copy], operator_id = 0 : i64}
  "rtask.operator"(%a, %y) {kernels = [@copy], operator_id = 0 : i64}
      : (memref<1x4xf32, strided<[8, 2], offset: 3>>, memref<1x4xf32>) -> ()
  return
}
// CHECK-LABEL: func.func @program
func.func @program(%a: memref<1x4xf32, strided<[8, 2], offset: 3>>, %y: memref<1x4xf32>) {
  // CHECK:      "rtask.program"() ({
  // CHECK-NEXT:   "rtask.veu"() ({
  // CHECK-NEXT:     "rtask.run"(%arg0, %arg1) {count = 3 : i64, first = 0 : i64, kernel = @copy, operator_id = 0 : i64}
  // CHECK-NEXT:   }) {id = 0 : i64} : () -> ()
  // CHECK-NEXT:   "rtask.veu"() ({
  // CHECK-NEXT:     "rtask.barrier"() {waits = array<i64: 0, 2>} : () -> ()
  // CHECK-NEXT:     "rtask.run"(%arg0, %arg1) {count = 1 : i64, first = 3 : i64, kernel = @copy, operator_id = 0 : i64}
  // CHECK-NEXT:   }) {id = 1 : i64} : () -> ()
  // CHECK-NEXT: }) {device = "cpu", num_veus = 2 : i64} : () -> ()
  "rtask.program"() ({
    "rtask.veu"() ({
      "rtask.run"(%a, %y) {kernel = @copy, operator_id = 0 : i64, first = 0 : i64, count = 3 : i64}
          : (memref<1x4xf32, strided<[8, 2], offset: 3>>, memref<1x4xf32>) -> ()
    }) {id = 0 : i64} : () -> ()
    "rtask.veu"() ({
      "rtask.barrier"() {waits = array<i64: 0, 2>} : () -> ()
      "rtask.run"(%a, %y) {kernel = @copy, operator_id = 0 : i64, first = 3 : i64, count = 1 : i64}
          : (memref<1x4xf32, strided<[8, 2], offset: 3>>, memref<1x4xf32>) -> ()
    }) {id = 1 : i64} : () -> ()
  }) {device = "cpu", num_veus = 2 : i64} : () -> ()
  return
}
