// RUN: rammer-opt %s --split-input-file --verify-diagnostics --rtask-verify-schedule -o /dev/null

// A correct program: every row is written before it is read.
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
  "rtask.program"() ({
    "rtask.veu"() ({
      "rtask.run"(%x, %a) {kernel = @rows, operator_id = 0 : i64, first = 0 : i64, count = 4 : i64}
          : (memref<4x16xf32>, memref<4x16xf32>) -> ()
    }) {id = 0 : i64} : () -> ()
    "rtask.veu"() ({
      "rtask.barrier"() {waits = array<i64: 0, 1>} : () -> ()
      "rtask.run"(%a, %y) {kernel = @rows, operator_id = 1 : i64, first = 0 : i64, count = 2 : i64}
          : (memref<4x16xf32>, memref<4x16xf32>) -> ()
      "rtask.barrier"() {waits = array<i64: 0, 3>} : () -> ()
      "rtask.run"(%a, %y) {kernel = @rows, operator_id = 1 : i64, first = 2 : i64, count = 2 : i64}
          : (memref<4x16xf32>, memref<4x16xf32>) -> ()
    }) {id = 1 : i64} : () -> ()
  }) {device = "cpu", num_veus = 2 : i64} : () -> ()
  return
}

// -----

// A wait that is one rTask too early.
// expected-error@unknown {{rows[2] on vEU 1 order 2 reads what rows[2] on vEU 0 order 2 writes in 'buffer 1', and no barrier orders them}}
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
  "rtask.program"() ({
    "rtask.veu"() ({
      "rtask.run"(%x, %a) {kernel = @rows, operator_id = 0 : i64, first = 0 : i64, count = 4 : i64}
          : (memref<4x16xf32>, memref<4x16xf32>) -> ()
    }) {id = 0 : i64} : () -> ()
    "rtask.veu"() ({
      "rtask.barrier"() {waits = array<i64: 0, 1>} : () -> ()
      "rtask.run"(%a, %y) {kernel = @rows, operator_id = 1 : i64, first = 0 : i64, count = 3 : i64}
          : (memref<4x16xf32>, memref<4x16xf32>) -> ()
      "rtask.barrier"() {waits = array<i64: 0, 3>} : () -> ()
      "rtask.run"(%a, %y) {kernel = @rows, operator_id = 1 : i64, first = 3 : i64, count = 1 : i64}
          : (memref<4x16xf32>, memref<4x16xf32>) -> ()
    }) {id = 1 : i64} : () -> ()
  }) {device = "cpu", num_veus = 2 : i64} : () -> ()
  return
}

// -----

// An rTask is missing.
// expected-error@unknown {{rows[3] never runs: expected every rTask to run exactly once}}
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
  "rtask.program"() ({
    "rtask.veu"() ({
      "rtask.run"(%x, %a) {kernel = @rows, operator_id = 0 : i64, first = 0 : i64, count = 4 : i64}
          : (memref<4x16xf32>, memref<4x16xf32>) -> ()
    }) {id = 0 : i64} : () -> ()
    "rtask.veu"() ({
      "rtask.barrier"() {waits = array<i64: 0, 3>} : () -> ()
      "rtask.run"(%a, %y) {kernel = @rows, operator_id = 1 : i64, first = 0 : i64, count = 3 : i64}
          : (memref<4x16xf32>, memref<4x16xf32>) -> ()
    }) {id = 1 : i64} : () -> ()
  }) {device = "cpu", num_veus = 2 : i64} : () -> ()
  return
}

// -----

// An rTask runs twice.
// expected-error-re@unknown {{rows\[2\] runs on vEU 1 .*and again on vEU 1.*: expected every rTask to run exactly once}}
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
  "rtask.program"() ({
    "rtask.veu"() ({
      "rtask.run"(%x, %a) {kernel = @rows, operator_id = 0 : i64, first = 0 : i64, count = 4 : i64}
          : (memref<4x16xf32>, memref<4x16xf32>) -> ()
    }) {id = 0 : i64} : () -> ()
    "rtask.veu"() ({
      "rtask.barrier"() {waits = array<i64: 0, 3>} : () -> ()
      "rtask.run"(%a, %y) {kernel = @rows, operator_id = 1 : i64, first = 0 : i64, count = 3 : i64}
          : (memref<4x16xf32>, memref<4x16xf32>) -> ()
      "rtask.run"(%a, %y) {kernel = @rows, operator_id = 1 : i64, first = 2 : i64, count = 2 : i64}
          : (memref<4x16xf32>, memref<4x16xf32>) -> ()
    }) {id = 1 : i64} : () -> ()
  }) {device = "cpu", num_veus = 2 : i64} : () -> ()
  return
}

// -----

// Two vEUs wait for each other.
// expected-error@unknown {{deadlock}}
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
  "rtask.program"() ({
    "rtask.veu"() ({
      "rtask.barrier"() {waits = array<i64: 1, 3>} : () -> ()
      "rtask.run"(%x, %a) {kernel = @rows, operator_id = 0 : i64, first = 0 : i64, count = 4 : i64}
          : (memref<4x16xf32>, memref<4x16xf32>) -> ()
    }) {id = 0 : i64} : () -> ()
    "rtask.veu"() ({
      "rtask.barrier"() {waits = array<i64: 0, 3>} : () -> ()
      "rtask.run"(%a, %y) {kernel = @rows, operator_id = 1 : i64, first = 0 : i64, count = 4 : i64}
          : (memref<4x16xf32>, memref<4x16xf32>) -> ()
    }) {id = 1 : i64} : () -> ()
  }) {device = "cpu", num_veus = 2 : i64} : () -> ()
  return
}
