// Every mismatch is reported, at its place; with only-expected, diagnostics that no comment expects are accepted; parts have a marker of one's own.
// RUN: not rammer-opt %s --split-input-file='// =====' --verify-diagnostics 2>&1 | filecheck %s
// RUN: not rammer-opt %s -split-input-file='// =====' -verify-diagnostics=only-expected 2>&1 | filecheck %s --check-prefix=ONLY
// RUN: not rammer-opt %S/verify-mismatches.mlir --split-input-file=// --verify-diagnostics --mlir-timing -o %t.none 2>/dev/null
// RUN: not ls %t.none
// RUN: rammer-opt %S/Inputs/parts.mlir --split-input-file='// +++' --output-split-marker='// next' | filecheck %s --check-prefix=MARKER

// CHECK: verify-mismatches.mlir:26:3: error: unexpected error: type of return operand 0
// CHECK-NEXT: return %a : f32
// CHECK: verify-mismatches.mlir:24:6: error: expected error "nothing of the kind" was not produced
// CHECK: verify-mismatches.mlir:25:6: error: expected warning "no.*thing" was not produced
// CHECK: verify-mismatches.mlir:31:24: error: unexpected error: custom op 'nonsense'
// ONLY-NOT: unexpected
// ONLY: error: expected error "nothing of the kind" was not produced
// ONLY: error: expected warning "no.*thing" was not produced
// ONLY-NOT: unexpected
// MARKER: func.func private @first
// MARKER: // next
// MARKER: func.func private @second



func.func @types(%a: f32) -> i32 {
  // expected-error@below {{nothing of the kind}}
  // expected-warning@below {{no.*thing}}
  return %a : f32
}

// =====

func.func private @a() nonsense
