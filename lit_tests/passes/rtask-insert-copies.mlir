// RUN: rammer-opt %s --split-input-file --rtask-insert-copies | filecheck %s

// An input has a place of its own and must be copied into a concatenation or a result; what an
// rOperator computes is computed there.
// CHECK: func.func private @copy_0
// CHECK: func.func @main(%[[X:.*]]: tensor<4x8xf32>)
// CHECK-NEXT: %[[R:.*]] = rtask.operator @relu(%[[X]])
// CHECK-NEXT: %[[COPY:.*]] = rtask.operator @copy_0(%[[X]])
// CHECK-NEXT: %[[Y:.*]] = tensor.concat dim(0) %[[COPY]], %[[R]]
// CHECK-NEXT: %[[Z:.*]] = rtask.operator @copy_0(%[[X]])
// CHECK-NEXT: return %[[Y]], %[[Z]]
func.func private @relu(%a: tensor<4x8xf32>) -> tensor<4x8xf32> {
  return %a : tensor<4x8xf32>
}
func.func @main(%x: tensor<4x8xf32>) -> (tensor<8x8xf32>, tensor<4x8xf32>) {
  %r = rtask.operator @relu(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %c = tensor.concat dim(0) %x, %r : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  return %c, %x : tensor<8x8xf32>, tensor<4x8xf32>
}

// -----

// One value cannot be in two results at once; a constant is made where it is wanted.
// CHECK: func.func @main(%[[X:.*]]: tensor<4xf32>)
// CHECK: %[[R:.*]] = rtask.operator @relu(%[[X]])
// CHECK: %[[COPY:.*]] = rtask.operator @copy_0(%[[R]])
// CHECK: %[[CONSTANT:.*]] = rtask.operator @constant_0()
// CHECK: return %[[R]], %[[COPY]], %[[CONSTANT]]
func.func private @relu(%a: tensor<4xf32>) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %one = arith.constant dense<1.0> : tensor<4xf32>
  %r = rtask.operator @relu(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %r, %r, %one : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// What every user computes anew, a filled tensor or a table of indices, has no place of its own: a
// view of it, or an rOperator that reads it, needs one.
// CHECK: func.func private @constant_0
// CHECK: func.func @main()
// CHECK: %[[FILLED:.*]] = rtask.operator @constant_0()
// CHECK: %[[PART:.*]] = tensor.extract_slice %[[FILLED]]
// CHECK: %[[TABLE:.*]] = rtask.operator @constant_1()
// CHECK: %[[R:.*]] = rtask.operator @sum(%[[PART]], %[[TABLE]])
// CHECK: return %[[R]]
#map = affine_map<(d0) -> (d0)>
func.func private @sum(%a: tensor<3xi64>, %b: tensor<3xi64>) -> tensor<3xi64> {
  return %a : tensor<3xi64>
}
func.func @main() -> tensor<3xi64> {
  %one = arith.constant 1 : i64
  %room = tensor.empty() : tensor<4xi64>
  %filled = linalg.generic {indexing_maps = [#map], iterator_types = ["parallel"]}
      outs(%room : tensor<4xi64>) {
  ^bb0(%out: i64):
    linalg.yield %one : i64
  } -> tensor<4xi64>
  %part = tensor.extract_slice %filled[1] [3] [1] : tensor<4xi64> to tensor<3xi64>
  %more = tensor.empty() : tensor<3xi64>
  %table = linalg.generic {indexing_maps = [#map], iterator_types = ["parallel"]}
      outs(%more : tensor<3xi64>) {
  ^bb0(%out: i64):
    %i = linalg.index 0 : index
    %n = arith.index_cast %i : index to i64
    linalg.yield %n : i64
  } -> tensor<3xi64>
  %r = rtask.operator @sum(%part, %table) : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
  return %r : tensor<3xi64>
}

// -----

// An external rKernel that needs aligned operands gets copies of what the caller's arrays hold, and
// of what begins between two multiples of the alignment; its result is copied to the caller's.
// CHECK: func.func @main(%[[X:.*]]: tensor<4x8xf32>, %[[W:.*]]: tensor<4x8xf32> {rtask.constant = "w"})
// CHECK-NEXT: %[[COPY:.*]] = rtask.operator @copy_0(%[[X]])
// CHECK-NEXT: %[[A:.*]] = rtask.operator @foreign(%[[COPY]], %[[W]])
// CHECK-NEXT: %[[B:.*]] = rtask.operator @foreign(%[[A]], %[[W]])
// CHECK-NEXT: %[[Y:.*]] = rtask.operator @copy_0(%[[B]])
// CHECK-NEXT: return %[[Y]]
"rtask.module"() {sym_name = "code", form = "c", code = "int f();"} : () -> ()
func.func private @foreign(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {
    rtask.generated = {external = {module = @code, symbol = "f", alignment = 64 : i64}}} {
  return %a : tensor<4x8xf32>
}
func.func @main(%x: tensor<4x8xf32>, %w: tensor<4x8xf32> {rtask.constant = "w"}) -> tensor<4x8xf32> {
  %a = rtask.operator @foreign(%x, %w) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %b = rtask.operator @foreign(%a, %w) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %b : tensor<4x8xf32>
}

// -----

// The code of a region takes dense operands: its result is copied into the concatenation.
// CHECK: func.func @main(%[[X:.*]]: tensor<4x8xf32>, %[[W:.*]]: tensor<4x8xf32> {rtask.constant = "w"})
// CHECK-NEXT: %[[A:.*]] = rtask.operator @foreign(%[[X]], %[[W]])
// CHECK-NEXT: %[[COPY:.*]] = rtask.operator @copy_0(%[[A]])
// CHECK-NEXT: %[[B:.*]] = rtask.operator @own(%[[X]])
// CHECK-NEXT: %[[Y:.*]] = tensor.concat dim(1) %[[COPY]], %[[B]]
// CHECK-NEXT: return %[[Y]]
"rtask.module"() {sym_name = "code", form = "c", code = "int f();"} : () -> ()
func.func private @foreign(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {
    rtask.generated = {external = {module = @code, symbol = "f"}}} {
  return %a : tensor<4x8xf32>
}
func.func private @own(%a: tensor<4x8xf32>) -> tensor<4x8xf32> {
  return %a : tensor<4x8xf32>
}
func.func @main(%x: tensor<4x8xf32>, %w: tensor<4x8xf32> {rtask.constant = "w"}) -> tensor<4x16xf32> {
  %a = rtask.operator @foreign(%x, %w) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %b = rtask.operator @own(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %c = tensor.concat dim(1) %a, %b : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
  return %c : tensor<4x16xf32>
}
