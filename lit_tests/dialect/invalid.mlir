// A case for every diagnostic of the dialect's verifiers.
// RUN: rammer-opt %s --split-input-file --verify-diagnostics -o /dev/null

// An attribute is missing.
// expected-error@below {{'rtask.kernel' op expected attribute 'threads' (Integer), got none: the operation is described by it}}
"rtask.kernel"() {function = @k, num_rtasks = 2 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}

// -----

// An attribute has another kind.
// expected-error@below {{'rtask.kernel' op expected attribute 'num_rtasks' (Integer), got "two"}}
"rtask.kernel"() {function = @k, num_rtasks = "two", threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}

// -----

// No rTasks.
// expected-error@below {{'rtask.kernel' op expected num_rtasks >= 1, got 0: counts are positive}}
"rtask.kernel"() {function = @k, num_rtasks = 0 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}

// -----

// No threads.
// expected-error@below {{'rtask.kernel' op expected threads >= 1, got 0: counts are positive}}
"rtask.kernel"() {function = @k, num_rtasks = 2 : i64, threads = 0 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}

// -----

// Negative shared_memory.
// expected-error@below {{'rtask.kernel' op expected shared_memory >= 0, got -1: costs are not negative}}
"rtask.kernel"() {function = @k, num_rtasks = 2 : i64, threads = 1 : i64,
  shared_memory = -1 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}

// -----

// Negative barriers.
// expected-error@below {{'rtask.kernel' op expected barriers >= 0, got -1: costs are not negative}}
"rtask.kernel"() {function = @k, num_rtasks = 2 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = -1 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}

// -----

// Negative operations.
// expected-error@below {{'rtask.kernel' op expected operations >= 0, got -1: costs are not negative}}
"rtask.kernel"() {function = @k, num_rtasks = 2 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = -1 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}

// -----

// Negative bytes.
// expected-error@below {{'rtask.kernel' op expected bytes >= 0, got -1: costs are not negative}}
"rtask.kernel"() {function = @k, num_rtasks = 2 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = -1 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}

// -----

// No such function.
// expected-error@below {{'rtask.kernel' op expected a function @missing, got no such symbol: an rKernel is a func.func of the same module}}
"rtask.kernel"() {function = @missing, num_rtasks = 2 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}

// -----

// The symbol is no function.
// expected-error@below {{'rtask.kernel' op expected a function @k, got a 'memref.global'}}
"rtask.kernel"() {function = @k, num_rtasks = 2 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
memref.global "private" @k : memref<4xf32>

// -----

// The function does not take an rTask's id.
// expected-error@below {{'rtask.kernel' op expected index as first argument of @k, got memref<4xf32>: an rKernel takes its rTask's id}}
"rtask.kernel"() {function = @k, num_rtasks = 2 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k(%a: memref<4xf32>, %out: memref<4xf32>) {
  return
}

// -----

// The function takes nothing.
// expected-error@below {{'rtask.kernel' op expected index as first argument of @k, got none}}
"rtask.kernel"() {function = @k, num_rtasks = 2 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k() {
  return
}

// -----

// An access is not a dictionary.
// expected-error@below {{'rtask.kernel' op expected dictionaries in reads, got 3 : i64: an access has argument, offsets and sizes}}
"rtask.kernel"() {function = @k, num_rtasks = 2 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [3 : i64],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}

// -----

// An access lacks its sizes.
// expected-error@below {{'rtask.kernel' op expected an integer argument, an affine map offsets and array<i64> sizes in reads, got argument, offsets: an access has}}
"rtask.kernel"() {function = @k, num_rtasks = 2 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0)>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}

// -----

// No output.
// expected-error@below {{'rtask.kernel' op expected at least one access in writes or updates, got none: an rTask has an output}}
"rtask.kernel"() {function = @k, num_rtasks = 2 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = []
} : () -> ()
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}

// -----

// An update of an argument that is not there.
// expected-error@below {{'rtask.kernel' op expected an argument in 0..0 in updates, got 1: arguments count from 0 after the rTask's id}}
"rtask.kernel"() {function = @k, num_rtasks = 2 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [], writes = [],
  updates = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k(%id: index, %a: memref<4xf32>) {
  return
}

// -----

// No such argument.
// expected-error@below {{'rtask.kernel' op expected an argument in 0..1 in reads, got 2: arguments count from 0 after the rTask's id}}
"rtask.kernel"() {function = @k, num_rtasks = 2 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 2 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}

// -----

// A scalar argument.
// expected-error@below {{'rtask.kernel' op expected a tensor or memref of static shape as argument 0 in reads, got f32: rTasks touch boxes of buffers}}
"rtask.kernel"() {function = @k, num_rtasks = 2 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k(%id: index, %a: f32, %out: memref<4xf32>) {
  return
}

// -----

// Offsets of two ids.
// expected-error@below {{'rtask.kernel' op expected offsets of one dimension for argument 1 in writes, got (d0, d1) -> (d0): d0 is the rTask's id}}
"rtask.kernel"() {function = @k, num_rtasks = 2 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0, d1) -> (d0)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}

// -----

// Another rank.
// expected-error@below {{'rtask.kernel' op expected 1 offsets and sizes for argument 1 in writes, got 2 and 1: a box has the rank of its argument}}
"rtask.kernel"() {function = @k, num_rtasks = 2 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0, 0)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}

// -----

// An empty tile.
// expected-error@below {{'rtask.kernel' op expected sizes >= 1 for argument 0 in reads, got [0]: a full tile is not empty}}
"rtask.kernel"() {function = @k, num_rtasks = 2 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 0>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}

// -----

// A tile outside of the output.
// expected-error@below {{'rtask.kernel' op expected every rTask to write an element of an output, got none of rTask 2: boxes may exceed an output, but not lie outside of it}}
"rtask.kernel"() {function = @k, num_rtasks = 3 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}

// -----

// More rTasks than elements.
// expected-error@below {{'rtask.kernel' op expected num_rtasks <= 4, the elements of the largest output, got 5: every rTask writes an element of its own}}
"rtask.kernel"() {function = @k, num_rtasks = 5 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}

// -----

// Tiles that leave elements out.
// expected-error@below {{'rtask.kernel' op expected every element of argument 1 in one rTask's box, got element [2] in 0: the tiles cover each output exactly once}}
"rtask.kernel"() {function = @k, num_rtasks = 1 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}

// -----

// Tiles that overlap.
// expected-error@below {{'rtask.kernel' op expected every element of argument 1 in one rTask's box, got element [1] in 2: the tiles cover each output exactly once}}
"rtask.kernel"() {function = @k, num_rtasks = 3 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}

// -----

// Two whole boxes.
// expected-error@below {{'rtask.kernel' op expected every element of argument 1 in one rTask's box, got element [0] in 2}}
"rtask.kernel"() {function = @k, num_rtasks = 2 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (0)>, sizes = array<i64: 4>}]
} : () -> ()
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}

// -----

// Not in a module.
func.func @f() {
  // expected-error@below {{'rtask.kernel' op expected parent 'builtin.module', got 'func.func': the operation has no meaning elsewhere}}
  "rtask.kernel"() {function = @k, num_rtasks = 2 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
    reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
    writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]} : () -> ()
  return
}
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}

// -----

// No rKernel.
func.func private @k(%a: tensor<4xf32>) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
func.func @main(%a: tensor<4xf32>) {
  // expected-error@below {{'rtask.operator' op expected symbols in kernels, got none: an rOperator has an rKernel}}
  %r = "rtask.operator"(%a) {kernels = []} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// Something else than symbols.
func.func private @k(%a: tensor<4xf32>) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
func.func @main(%a: tensor<4xf32>) {
  // expected-error@below {{'rtask.operator' op expected symbols in kernels, got [}}
  %r = "rtask.operator"(%a) {kernels = [1 : i64]} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// An unknown rKernel.
func.func private @k(%a: tensor<4xf32>) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
func.func @main(%a: tensor<4xf32>) {
  // expected-error@below {{'rtask.operator' op expected a function @missing, got no such symbol}}
  %r = "rtask.operator"(%a) {kernels = [@missing]} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// Too few operands.
func.func private @k(%a: tensor<4xf32>) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
func.func @main(%a: tensor<4xf32>) {
  // expected-error@below {{'rtask.operator' op expected 1 operands, got 0: the operands are those of @k}}
  %r = "rtask.operator"() {kernels = [@k]} : () -> tensor<4xf32>
  return
}

// -----

// Another operand type.
func.func private @k(%a: tensor<4xf32>) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
func.func @main(%a: tensor<5xf32>) {
  // expected-error@below {{'rtask.operator' op expected operand 0 of type tensor<4xf32>, got tensor<5xf32>: the operands have the shapes, element types and strides of @k}}
  %r = "rtask.operator"(%a) {kernels = [@k]} : (tensor<5xf32>) -> tensor<4xf32>
  return
}

// -----

// Another result type.
func.func private @k(%a: tensor<4xf32>) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
func.func @main(%a: tensor<4xf32>) {
  // expected-error@below {{'rtask.operator' op expected result 0 of type tensor<4xf32>, got tensor<4xf64>}}
  %r = "rtask.operator"(%a) {kernels = [@k]} : (tensor<4xf32>) -> tensor<4xf64>
  return
}

// -----

// Neither tensor nor memref.
func.func private @k(%a: tensor<4xf32>) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
func.func @main(%a: f32) {
  // expected-error@below {{'rtask.operator' op expected a tensor, got f32: an rOperator is on tensors or on memrefs}}
  "rtask.operator"(%a) {kernels = [@k]} : (f32) -> ()
  return
}

// -----

// Tensors and memrefs.
func.func private @k(%a: tensor<4xf32>) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
func.func @main(%a: memref<4xf32>, %b: tensor<4xf32>) {
  // expected-error@below {{'rtask.operator' op expected a memref, got tensor<4xf32>: an rOperator is on tensors or on memrefs}}
  "rtask.operator"(%a, %b) {kernels = [@k]} : (memref<4xf32>, tensor<4xf32>) -> ()
  return
}

// -----

// Results on memrefs.
func.func private @k(%a: tensor<4xf32>) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
func.func @main(%a: memref<4xf32>) {
  // expected-error@below {{'rtask.operator' op expected no results, got 1: an rOperator on memrefs writes operands}}
  %r = "rtask.operator"(%a) {kernels = [@k], operator_id = 0 : i64} : (memref<4xf32>) -> memref<4xf32>
  return
}

// -----

// No number on memrefs.
func.func private @k(%a: tensor<4xf32>) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
func.func @main(%a: memref<4xf32>) {
  // expected-error@below {{'rtask.operator' op expected attribute 'operator_id' (Integer), got none}}
  "rtask.operator"(%a) {kernels = [@k]} : (memref<4xf32>) -> ()
  return
}

// -----

// A negative number.
func.func private @k(%a: tensor<4xf32>) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
func.func @main(%a: memref<4xf32>) {
  // expected-error@below {{'rtask.operator' op expected operator_id >= 0, got -1: ids count from 0}}
  "rtask.operator"(%a) {kernels = [@k], operator_id = -1 : i64} : (memref<4xf32>) -> ()
  return
}

// -----

// A number on tensors.
func.func private @k(%a: tensor<4xf32>) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
func.func @main(%a: tensor<4xf32>) {
  // expected-error@below {{'rtask.operator' op expected no operator_id, got 3 : i64: only rOperators on memrefs are numbered}}
  %r = "rtask.operator"(%a) {kernels = [@k], operator_id = 3 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// More operands than the dialect has.
func.func private @k(%a: tensor<4xf32>) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
func.func @main(%a: f32) {
  // expected-error@below {{'rtask.operator' op expected at most 96 operands, got 97: the dialect has no more}}
  "rtask.operator"(%a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a) {kernels = [@k]}
    : (f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32) -> ()
  return
}

// -----

// An rKernel's output is of another type.
"rtask.kernel"() {function = @k, num_rtasks = 2 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}
func.func @main(%a: memref<4xf32>, %b: memref<4xf32, strided<[2]>>) {
  // expected-error@below {{'rtask.operator' op expected operand or result 1 of type memref<4xf32>, got memref<4xf32, strided<[2]>>: the operand or results have}}
  "rtask.operator"(%a, %b) {kernels = [@k], operator_id = 0 : i64}
      : (memref<4xf32>, memref<4xf32, strided<[2]>>) -> ()
  return
}

// -----

// No device.
"rtask.kernel"() {function = @k, num_rtasks = 2 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}
func.func @main(%a: memref<4xf32>, %y: memref<4xf32>) {
  // expected-error@below {{'rtask.program' op expected attribute 'device' (String), got none}}
  "rtask.program"() ({
    "rtask.veu"() ({
    ^bb0:
    }) {id = 0 : i64} : () -> ()
  }) {num_veus = 1 : i64} : () -> ()
  return
}

// -----

// No vEUs.
"rtask.kernel"() {function = @k, num_rtasks = 2 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}
func.func @main(%a: memref<4xf32>, %y: memref<4xf32>) {
  // expected-error@below {{'rtask.program' op expected num_veus >= 1, got 0: counts are positive}}
  "rtask.program"() ({
  }) {device = "cpu", num_veus = 0 : i64} : () -> ()
  return
}

// -----

// Fewer vEUs than announced.
"rtask.kernel"() {function = @k, num_rtasks = 2 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}
func.func @main(%a: memref<4xf32>, %y: memref<4xf32>) {
  // expected-error@below {{'rtask.program' op expected 2 vEUs, got 1: num_veus counts the regions}}
  "rtask.program"() ({
    "rtask.veu"() ({
    ^bb0:
    }) {id = 0 : i64} : () -> ()
  }) {device = "cpu", num_veus = 2 : i64} : () -> ()
  return
}

// -----

// Ids out of order.
"rtask.kernel"() {function = @k, num_rtasks = 2 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}
func.func @main(%a: memref<4xf32>, %y: memref<4xf32>) {
  "rtask.program"() ({
    // expected-error@below {{'rtask.veu' op expected id 0, got 1: vEUs have the ids 0, 1, ... in order}}
    "rtask.veu"() ({
    ^bb0:
    }) {id = 1 : i64} : () -> ()
    "rtask.veu"() ({
    ^bb0:
    }) {id = 0 : i64} : () -> ()
  }) {device = "cpu", num_veus = 2 : i64} : () -> ()
  return
}

// -----

// A negative id.
"rtask.kernel"() {function = @k, num_rtasks = 2 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}
func.func @main(%a: memref<4xf32>, %y: memref<4xf32>) {
  "rtask.program"() ({
    // expected-error@below {{'rtask.veu' op expected id >= 0, got -1: ids count from 0}}
    "rtask.veu"() ({
    ^bb0:
    }) {id = -1 : i64} : () -> ()
  }) {device = "cpu", num_veus = 1 : i64} : () -> ()
  return
}

// -----

// Something else in a program.
func.func @main() {
  // expected-error@below {{'rtask.program' op expected only 'rtask.veu' inside, got 'arith.constant': it is a plain list}}
  "rtask.program"() ({
    %c = arith.constant 0 : index
  }) {device = "cpu", num_veus = 1 : i64} : () -> ()
  return
}

// -----

// No region.
func.func @main() {
  // expected-error@below {{'rtask.program' op expected one region, got 0: it holds the operations 'rtask.veu'}}
  "rtask.program"() {device = "cpu", num_veus = 1 : i64} : () -> ()
  return
}

// -----

// No block.
func.func @main() {
  // expected-error@below {{'rtask.program' op expected one block, got 0: it holds the operations 'rtask.veu'}}
  "rtask.program"() ({}) {device = "cpu", num_veus = 1 : i64} : () -> ()
  return
}

// -----

// Something else in a vEU.
"rtask.kernel"() {function = @k, num_rtasks = 2 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}
func.func @main(%a: memref<4xf32>, %y: memref<4xf32>) {
  "rtask.program"() ({
    // expected-error@below {{'rtask.veu' op expected only 'rtask.run' and 'rtask.barrier' inside, got 'arith.constant'}}
    "rtask.veu"() ({
      %c = arith.constant 0 : index
    }) {id = 0 : i64} : () -> ()
  }) {device = "cpu", num_veus = 1 : i64} : () -> ()
  return
}

// -----

// A vEU outside a program.
func.func @main() {
  // expected-error@below {{'rtask.veu' op expected parent 'rtask.program', got 'func.func'}}
  "rtask.veu"() ({
  ^bb0:
  }) {id = 0 : i64} : () -> ()
  return
}

// -----

// A run outside a vEU.
"rtask.kernel"() {function = @k, num_rtasks = 2 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}
func.func @main(%a: memref<4xf32>, %y: memref<4xf32>) {
  // expected-error@below {{'rtask.run' op expected parent 'rtask.veu', got 'func.func'}}
  "rtask.run"(%a, %y) {kernel = @k, operator_id = 0 : i64, first = 0 : i64, count = 2 : i64}
          : (memref<4xf32>, memref<4xf32>) -> ()
  return
}

// -----

// A barrier outside a vEU.
func.func @main() {
  // expected-error@below {{'rtask.barrier' op expected parent 'rtask.veu', got 'func.func'}}
  "rtask.barrier"() {waits = array<i64>} : () -> ()
  return
}

// -----

// No rKernel.
"rtask.kernel"() {function = @k, num_rtasks = 2 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}
func.func @main(%a: memref<4xf32>, %y: memref<4xf32>) {
  "rtask.program"() ({
    "rtask.veu"() ({
      // expected-error@below {{'rtask.run' op expected attribute 'kernel' (FlatSymbolRef), got none}}
      "rtask.run"(%a, %y) {operator_id = 0 : i64, first = 0 : i64, count = 2 : i64}
          : (memref<4xf32>, memref<4xf32>) -> ()
    }) {id = 0 : i64} : () -> ()
  }) {device = "cpu", num_veus = 1 : i64} : () -> ()
  return
}

// -----

// A negative operator.
"rtask.kernel"() {function = @k, num_rtasks = 2 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}
func.func @main(%a: memref<4xf32>, %y: memref<4xf32>) {
  "rtask.program"() ({
    "rtask.veu"() ({
      // expected-error@below {{'rtask.run' op expected operator_id >= 0, got -1: ids count from 0}}
      "rtask.run"(%a, %y) {kernel = @k, operator_id = -1 : i64, first = 0 : i64, count = 2 : i64}
          : (memref<4xf32>, memref<4xf32>) -> ()
    }) {id = 0 : i64} : () -> ()
  }) {device = "cpu", num_veus = 1 : i64} : () -> ()
  return
}

// -----

// A negative first rTask.
"rtask.kernel"() {function = @k, num_rtasks = 2 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}
func.func @main(%a: memref<4xf32>, %y: memref<4xf32>) {
  "rtask.program"() ({
    "rtask.veu"() ({
      // expected-error@below {{'rtask.run' op expected first >= 0, got -1: ids count from 0}}
      "rtask.run"(%a, %y) {kernel = @k, operator_id = 0 : i64, first = -1 : i64, count = 2 : i64}
          : (memref<4xf32>, memref<4xf32>) -> ()
    }) {id = 0 : i64} : () -> ()
  }) {device = "cpu", num_veus = 1 : i64} : () -> ()
  return
}

// -----

// No rTasks.
"rtask.kernel"() {function = @k, num_rtasks = 2 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}
func.func @main(%a: memref<4xf32>, %y: memref<4xf32>) {
  "rtask.program"() ({
    "rtask.veu"() ({
      // expected-error@below {{'rtask.run' op expected count >= 1, got 0: counts are positive}}
      "rtask.run"(%a, %y) {kernel = @k, operator_id = 0 : i64, first = 0 : i64, count = 0 : i64}
          : (memref<4xf32>, memref<4xf32>) -> ()
    }) {id = 0 : i64} : () -> ()
  }) {device = "cpu", num_veus = 1 : i64} : () -> ()
  return
}

// -----

// More rTasks than the rKernel has.
"rtask.kernel"() {function = @k, num_rtasks = 2 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}
func.func @main(%a: memref<4xf32>, %y: memref<4xf32>) {
  "rtask.program"() ({
    "rtask.veu"() ({
      // expected-error@below {{'rtask.run' op expected first + count <= 2, got 3: @k has 2 rTasks}}
      "rtask.run"(%a, %y) {kernel = @k, operator_id = 0 : i64, first = 1 : i64, count = 2 : i64}
          : (memref<4xf32>, memref<4xf32>) -> ()
    }) {id = 0 : i64} : () -> ()
  }) {device = "cpu", num_veus = 1 : i64} : () -> ()
  return
}

// -----

// An unknown rKernel.
"rtask.kernel"() {function = @k, num_rtasks = 2 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}
func.func @main(%a: memref<4xf32>, %y: memref<4xf32>) {
  "rtask.program"() ({
    "rtask.veu"() ({
      // expected-error@below {{'rtask.run' op expected a function @missing, got no such symbol}}
      "rtask.run"(%a, %y) {kernel = @missing, operator_id = 0 : i64, first = 0 : i64, count = 2 : i64}
          : (memref<4xf32>, memref<4xf32>) -> ()
    }) {id = 0 : i64} : () -> ()
  }) {device = "cpu", num_veus = 1 : i64} : () -> ()
  return
}

// -----

// An rKernel without a description.
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}
func.func @main(%a: memref<4xf32>, %y: memref<4xf32>) {
  "rtask.program"() ({
    "rtask.veu"() ({
      // expected-error@below {{'rtask.run' op expected an rtask.kernel for @k, got none: runs are of described rKernels}}
      "rtask.run"(%a, %y) {kernel = @k, operator_id = 0 : i64, first = 0 : i64, count = 2 : i64}
          : (memref<4xf32>, memref<4xf32>) -> ()
    }) {id = 0 : i64} : () -> ()
  }) {device = "cpu", num_veus = 1 : i64} : () -> ()
  return
}

// -----

// An operand of another type.
"rtask.kernel"() {function = @k, num_rtasks = 2 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}
func.func @main(%a: memref<4xf64>, %y: memref<4xf32>) {
  "rtask.program"() ({
    "rtask.veu"() ({
      // expected-error@below {{'rtask.run' op expected operand 0 of type memref<4xf32>, got memref<4xf64>: the operands have the shapes, element types and strides of @k}}
      "rtask.run"(%a, %y) {kernel = @k, operator_id = 0 : i64, first = 0 : i64, count = 2 : i64}
          : (memref<4xf64>, memref<4xf32>) -> ()
    }) {id = 0 : i64} : () -> ()
  }) {device = "cpu", num_veus = 1 : i64} : () -> ()
  return
}

// -----

// Two operands instead of one.
"rtask.kernel"() {function = @k, num_rtasks = 2 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}
func.func @main(%a: memref<4xf32>, %y: memref<4xf32>) {
  "rtask.program"() ({
    "rtask.veu"() ({
      // expected-error@below {{'rtask.run' op expected 2 operands, got 1: the operands are those of @k}}
      "rtask.run"(%a) {kernel = @k, operator_id = 0 : i64, first = 0 : i64, count = 2 : i64}
          : (memref<4xf32>) -> ()
    }) {id = 0 : i64} : () -> ()
  }) {device = "cpu", num_veus = 1 : i64} : () -> ()
  return
}

// -----

// An rKernel described twice.
"rtask.kernel"() {function = @k, num_rtasks = 2 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
// expected-error@below {{'rtask.kernel' op expected one rtask.kernel for @k, got a second: a function is one rKernel}}
"rtask.kernel"() {function = @k, num_rtasks = 2 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}
func.func @main() {
  "rtask.program"() ({
    "rtask.veu"() ({
    ^bb0:
    }) {id = 0 : i64} : () -> ()
  }) {device = "cpu", num_veus = 1 : i64} : () -> ()
  return
}

// -----

// Waits of another kind.
"rtask.kernel"() {function = @k, num_rtasks = 2 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}
func.func @main(%a: memref<4xf32>, %y: memref<4xf32>) {
  "rtask.program"() ({
    "rtask.veu"() ({
      "rtask.run"(%a, %y) {kernel = @k, operator_id = 0 : i64, first = 0 : i64, count = 2 : i64}
          : (memref<4xf32>, memref<4xf32>) -> ()
    }) {id = 0 : i64} : () -> ()
    "rtask.veu"() ({
      // expected-error@below {{'rtask.barrier' op expected attribute 'waits' (DenseI64Array), got [0, 1]}}
      "rtask.barrier"() {waits = [0, 1]} : () -> ()
    }) {id = 1 : i64} : () -> ()
  }) {device = "cpu", num_veus = 2 : i64} : () -> ()
  return
}

// -----

// Half a wait.
"rtask.kernel"() {function = @k, num_rtasks = 2 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}
func.func @main(%a: memref<4xf32>, %y: memref<4xf32>) {
  "rtask.program"() ({
    "rtask.veu"() ({
      "rtask.run"(%a, %y) {kernel = @k, operator_id = 0 : i64, first = 0 : i64, count = 2 : i64}
          : (memref<4xf32>, memref<4xf32>) -> ()
    }) {id = 0 : i64} : () -> ()
    "rtask.veu"() ({
      // expected-error@below {{'rtask.barrier' op expected pairs in waits, got 3 numbers: a wait is a vEU and an order}}
      "rtask.barrier"() {waits = array<i64: 0, 1, 0>} : () -> ()
    }) {id = 1 : i64} : () -> ()
  }) {device = "cpu", num_veus = 2 : i64} : () -> ()
  return
}

// -----

// A wait for a vEU that does not exist.
"rtask.kernel"() {function = @k, num_rtasks = 2 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}
func.func @main(%a: memref<4xf32>, %y: memref<4xf32>) {
  "rtask.program"() ({
    "rtask.veu"() ({
      "rtask.run"(%a, %y) {kernel = @k, operator_id = 0 : i64, first = 0 : i64, count = 2 : i64}
          : (memref<4xf32>, memref<4xf32>) -> ()
    }) {id = 0 : i64} : () -> ()
    "rtask.veu"() ({
      // expected-error@below {{'rtask.barrier' op expected a wait for a vEU in 0..1, got 2: waits are within the program}}
      "rtask.barrier"() {waits = array<i64: 2, 0>} : () -> ()
    }) {id = 1 : i64} : () -> ()
  }) {device = "cpu", num_veus = 2 : i64} : () -> ()
  return
}

// -----

// A wait for the own vEU.
"rtask.kernel"() {function = @k, num_rtasks = 2 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}
func.func @main(%a: memref<4xf32>, %y: memref<4xf32>) {
  "rtask.program"() ({
    "rtask.veu"() ({
      "rtask.run"(%a, %y) {kernel = @k, operator_id = 0 : i64, first = 0 : i64, count = 2 : i64}
          : (memref<4xf32>, memref<4xf32>) -> ()
    }) {id = 0 : i64} : () -> ()
    "rtask.veu"() ({
      // expected-error@below {{'rtask.barrier' op expected a wait for another vEU than 1, got 1: the rTasks of one vEU run in order anyway}}
      "rtask.barrier"() {waits = array<i64: 0, 0, 1, 0>} : () -> ()
    }) {id = 1 : i64} : () -> ()
  }) {device = "cpu", num_veus = 2 : i64} : () -> ()
  return
}

// -----

// A wait for an rTask that does not exist.
"rtask.kernel"() {function = @k, num_rtasks = 2 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {
  return
}
func.func @main(%a: memref<4xf32>, %y: memref<4xf32>) {
  "rtask.program"() ({
    "rtask.veu"() ({
      "rtask.run"(%a, %y) {kernel = @k, operator_id = 0 : i64, first = 0 : i64, count = 2 : i64}
          : (memref<4xf32>, memref<4xf32>) -> ()
    }) {id = 0 : i64} : () -> ()
    "rtask.veu"() ({
      // expected-error@below {{'rtask.barrier' op expected a wait for an order < 2 of vEU 0, got 2: orders count the vEU's rTasks from 0}}
      "rtask.barrier"() {waits = array<i64: 0, 2>} : () -> ()
    }) {id = 1 : i64} : () -> ()
  }) {device = "cpu", num_veus = 2 : i64} : () -> ()
  return
}

// -----

// Code from elsewhere of an unknown form, and without any content.
// expected-error@below {{'rtask.module' op expected form c, llvm, object, ptx, cuda, graph, binary, got 'fortran': others cannot be linked}}
"rtask.module"() {sym_name = "code", form = "fortran", code = "END"} : () -> ()

// -----

// expected-error@below {{'rtask.module' op expected code, got an empty string: a module defines functions}}
"rtask.module"() {sym_name = "code", form = "c", code = ""} : () -> ()

// -----

// expected-error@below {{'rtask.module' op expected the name of an engine, got another: the form is graph}}
"rtask.module"() {sym_name = "code", form = "graph", code = "{}"} : () -> ()

// -----

// expected-error@below {{'rtask.module' op expected no engine, got another: the form is c}}
"rtask.module"() {sym_name = "code", form = "c", code = "int k;", engine = "numpy"} : () -> ()

// -----

// expected-error@below {{'rtask.module' op expected needs of strings package, version, library, extra, a package at least, got {version = "1"}: they are looked up where the code runs}}
"rtask.module"() {sym_name = "code", form = "c", code = "int k;", needs = [{version = "1"}]} : () -> ()

// -----

// expected-error@below {{'rtask.module' op expected strings in objects, got others: each holds the bytes of an object}}
"rtask.module"() {sym_name = "code", form = "c", code = "int k;", objects = [1 : i64]} : () -> ()

// -----

// expected-error@below {{'rtask.module' op expected options of strings, beside an engine, got {threads = 2 : i64}: the engine reads them}}
"rtask.module"() {sym_name = "code", form = "graph", engine = "numpy", code = "{}", options = {threads = 2 : i64}} : () -> ()

// -----

// expected-error@below {{'rtask.module' op expected options of strings, beside an engine, got {threads = "2"}: the engine reads them}}
"rtask.module"() {sym_name = "code", form = "c", code = "int k;", options = {threads = "2"}} : () -> ()

// -----

// expected-error@below {{'rtask.kernel' op expected an alignment of 1, 2, 4, 8, 16, 32, 64 bytes in external, got 3 : i64: buffers begin on cache lines at most}}
"rtask.kernel"() {function = @k, num_rtasks = 1 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64, reads = [],
  writes = [{argument = 0 : i64, offsets = affine_map<(d0) -> (0)>, sizes = array<i64: 4>}],
  external = {module = @code, symbol = "k", alignment = 3 : i64}
} : () -> ()
"rtask.module"() {sym_name = "code", form = "c", code = "int k;"} : () -> ()
func.func private @k(index, memref<4xf32>)

// -----

// External rKernels of a grain that there is not, and of the whole device with several rTasks.
// expected-error@below {{'rtask.kernel' op expected a grain of region, device in external, got "machine": code computes on a vEU, or on the whole device}}
"rtask.kernel"() {function = @k, num_rtasks = 1 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64, reads = [],
  writes = [{argument = 0 : i64, offsets = affine_map<(d0) -> (0)>, sizes = array<i64: 4>}],
  external = {module = @code, symbol = "k", grain = "machine"}
} : () -> ()
"rtask.module"() {sym_name = "code", form = "c", code = "int k;"} : () -> ()
func.func private @k(index, memref<4xf32>)

// -----

// expected-error@below {{'rtask.kernel' op expected one rTask of the grain device, got 2: it has the device to itself}}
"rtask.kernel"() {function = @k, num_rtasks = 2 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64, reads = [],
  writes = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  external = {module = @code, symbol = "k", grain = "device"}
} : () -> ()
"rtask.module"() {sym_name = "code", form = "c", code = "int k;"} : () -> ()
func.func private @k(index, memref<4xf32>)

// -----

// expected-error@below {{'rtask.kernel' op expected state in external, got none: what runs the form graph is opened once}}
"rtask.kernel"() {function = @k, num_rtasks = 1 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64, reads = [],
  writes = [{argument = 0 : i64, offsets = affine_map<(d0) -> (0)>, sizes = array<i64: 4>}],
  external = {module = @code, symbol = "k"}
} : () -> ()
"rtask.module"() {sym_name = "code", form = "graph", engine = "numpy", code = "{}"} : () -> ()
func.func private @k(index, memref<4xf32>)

// -----

// An rKernel without a body, which no other code is said to define.
// expected-error@below {{'rtask.kernel' op expected a body of @k, got a declaration: code from elsewhere is named by the attribute external}}
"rtask.kernel"() {function = @k, num_rtasks = 1 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64, reads = [],
  writes = [{argument = 0 : i64, offsets = affine_map<(d0) -> (0)>, sizes = array<i64: 4>}]
} : () -> ()
func.func private @k(index, memref<4xf32>)

// -----

// An external rKernel that has a body, one of no module, and one whose module is none.
// expected-error@below {{'rtask.kernel' op expected a declaration @k, got a body: external code is the rKernel}}
"rtask.kernel"() {function = @k, num_rtasks = 1 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64, reads = [],
  writes = [{argument = 0 : i64, offsets = affine_map<(d0) -> (0)>, sizes = array<i64: 4>}],
  external = {module = @code, symbol = "k"}
} : () -> ()
"rtask.module"() {sym_name = "code", form = "c", code = "int k;"} : () -> ()
func.func private @k(%id: index, %out: memref<4xf32>) {
  return
}

// -----

// expected-error@below {{'rtask.kernel' op expected an rtask.module @code, got no such symbol: it defines the function}}
"rtask.kernel"() {function = @k, num_rtasks = 1 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64, reads = [],
  writes = [{argument = 0 : i64, offsets = affine_map<(d0) -> (0)>, sizes = array<i64: 4>}],
  external = {module = @code, symbol = "k"}
} : () -> ()
func.func private @k(index, memref<4xf32>)

// -----

// expected-error@below {{'rtask.kernel' op expected a symbol module and the name of a function in external, got module: a function of another module is the rKernel}}
"rtask.kernel"() {function = @k, num_rtasks = 1 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64, reads = [],
  writes = [{argument = 0 : i64, offsets = affine_map<(d0) -> (0)>, sizes = array<i64: 4>}],
  external = {module = @k}
} : () -> ()
func.func private @k(index, memref<4xf32>)

// -----

// expected-error@below {{'rtask.kernel' op expected an alignment of 1, 2, 4, 8, 16, 32, 64 bytes in external, got 3 : i64: buffers begin on cache lines at most}}
"rtask.kernel"() {function = @k, num_rtasks = 1 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64, reads = [],
  writes = [{argument = 0 : i64, offsets = affine_map<(d0) -> (0)>, sizes = array<i64: 4>}],
  external = {module = @code, symbol = "k", alignment = 3 : i64}
} : () -> ()
"rtask.module"() {sym_name = "code", form = "c", code = "int k;"} : () -> ()
func.func private @k(index, memref<4xf32>)

// -----

// expected-error@below {{'rtask.module' op expected strings in objects, got others: each holds the bytes of an object}}
"rtask.module"() {sym_name = "code", form = "c", code = "int k;", objects = [1]} : () -> ()

// -----

// expected-error@below {{'rtask.kernel' op expected one of f16, bf16, tf32 as matrix_element, got f32: devices have rates of these types}}
"rtask.kernel"() {function = @k, num_rtasks = 1 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64, reads = [],
  writes = [{argument = 0 : i64, offsets = affine_map<(d0) -> (0)>, sizes = array<i64: 4>}],
  matrix_element = "f32"
} : () -> ()
func.func private @k(%id: index, %out: memref<4xf32>) {
  return
}
