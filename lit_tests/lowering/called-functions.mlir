// RUN: rammer-opt %s --split-input-file --verify-diagnostics --rtask-schedule --rtask-plan-memory --rtask-lower-to-gpu | filecheck %s --check-prefix=GPU
// RUN: rammer-opt %s --split-input-file --rtask-schedule | filecheck %s
// RUN: sed '/^\/\/ -----/,$d' %s | rammer-opt --rtask-schedule --rtask-plan-memory --rtask-lower-to-cpu | filecheck %s --check-prefix=CPU

// Private functions that the chosen rKernel calls, directly or not, stay; others go. Lowering puts them in place of the calls.
// CHECK-DAG: func.func private @inner
// CHECK-DAG: func.func private @helper
// CHECK-DAG: func.func private @k(
// CHECK-NOT: @unused
// CHECK: rtask.program
// CPU-NOT: func.func
// CPU: llvm.func {{.*}}@rkernel.k(
// CPU: llvm.store
// CPU-NOT: @helper
// GPU: func.func private @rkernel.k(
// GPU-NOT: @helper
// GPU: memref.store
func.func private @unused(%a: memref<4xf32>) { return }
func.func private @inner(%a: memref<4xf32>, %i: index, %v: f32) -> f32 {
  %w = arith.addf %v, %v : f32
  memref.store %w, %a[%i] : memref<4xf32>
  return %w : f32
}
func.func private @helper(%a: memref<4xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %one = arith.constant 1.0 : f32
  %last = scf.for %i = %c0 to %c4 step %c1 iter_args(%v = %one) -> f32 {
    %w = func.call @inner(%a, %i, %v) : (memref<4xf32>, index, f32) -> f32
    scf.yield %w : f32
  }
  return
}
func.func private @k(%id: index, %b: memref<4xf32>) {
  func.call @helper(%b) : (memref<4xf32>) -> ()
  return
}
rtask.kernel @k rtasks(1) operations(1) bytes(1) {
  writes 0[0 +: 4]
}
func.func @main(%b: memref<4xf32> {rtask.name = "y", rtask.output}) {
  rtask.operator 0 @k(%b) : (memref<4xf32>) -> ()
  return
}

// -----

// A function without a body is no part of a GPU's program.
func.func private @declared(memref<4xf32>)
func.func private @k(%id: index, %b: memref<4xf32>) {
  // expected-error @+1 {{'func.call': expected a function with a body, found the declaration @declared: write an rtask.kernel with 'external' and an rtask.module with its code}}
  func.call @declared(%b) : (memref<4xf32>) -> ()
  return
}
rtask.kernel @k rtasks(1) operations(1) bytes(1) {
  writes 0[0 +: 4]
}
func.func @main(%b: memref<4xf32> {rtask.name = "y", rtask.output}) {
  rtask.operator 0 @k(%b) : (memref<4xf32>) -> ()
  return
}

// -----

func.func private @again(%b: memref<4xf32>) {
  // expected-error @+1 {{'func.call': expected a function that does not call itself, found @again: use a loop of scf}}
  func.call @again(%b) : (memref<4xf32>) -> ()
  return
}
func.func private @k(%id: index, %b: memref<4xf32>) {
  func.call @again(%b) : (memref<4xf32>) -> ()
  return
}
rtask.kernel @k rtasks(1) operations(1) bytes(1) {
  writes 0[0 +: 4]
}
func.func @main(%b: memref<4xf32> {rtask.name = "y", rtask.output}) {
  rtask.operator 0 @k(%b) : (memref<4xf32>) -> ()
  return
}

// -----

func.func private @branches(%b: memref<4xf32>) {
  cf.br ^end
^end:
  return
}
func.func private @k(%id: index, %b: memref<4xf32>) {
  // expected-error @+1 {{'func.call': expected a function of one block, found @branches with 2: use scf}}
  func.call @branches(%b) : (memref<4xf32>) -> ()
  return
}
rtask.kernel @k rtasks(1) operations(1) bytes(1) {
  writes 0[0 +: 4]
}
func.func @main(%b: memref<4xf32> {rtask.name = "y", rtask.output}) {
  rtask.operator 0 @k(%b) : (memref<4xf32>) -> ()
  return
}
