// A dialect that a file defines in IRDL; operations of dialects that nobody defines; warnings are printed and change nothing.
// RUN: rammer-opt %s --irdl-file=%S/Inputs/own-dialect.irdl | filecheck %s
// RUN: rammer-opt %s --allow-unregistered-dialect | filecheck %s
// RUN: not rammer-opt %s 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: not rammer-opt %s --irdl-file=%s 2>&1 | filecheck %s --check-prefix=BAD

// CHECK: "own.square"(%arg0) : (f32) -> f32
// UNKNOWN: irdl-file.mlir:11:20: error: operation being parsed with an unregistered dialect
// BAD: error: --irdl-file: '{{.*}}irdl-file.mlir': expected IRDL, found:
func.func @main(%a: f32) -> f32 {
  %0 = "own.square"(%a) : (f32) -> f32
  return %0 : f32
}
