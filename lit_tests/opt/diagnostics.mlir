// Diagnostics as MLIR's tools print them: the file's name, line and column, all errors, notes, the line of source; on any part.
// RUN: not rammer-opt %s --split-input-file --rtask-plan-memory 2>&1 | filecheck %s --strict-whitespace --match-full-lines
// RUN: not rammer-opt %s --split-input-file --mlir-disable-diagnostic-notes --color 2>&1 | filecheck %s --check-prefix=COLOR
// RUN: not rammer-opt %s --split-input-file --mlir-print-op-on-diagnostic=false 2>&1 | filecheck %s --check-prefix=SHORT
// CHECK:{{.*}}/diagnostics.mlir:17:3: error: type of return operand 0 ('f32') doesn't match function result type ('i32') in function @types
// CHECK-NEXT:  return %a : f32
// CHECK-NEXT:  ^
// CHECK-NEXT:{{.*}}/diagnostics.mlir:17:3: note: see current operation: "func.return"(%arg0) : (f32) -> ()
// CHECK-NEXT:  return %a : f32
// CHECK-NEXT:  ^
// CHECK-NEXT:error: expected at least one rtask.program, found none: run rtask-schedule first
// CHECK-NEXT:{{.*}}/diagnostics.mlir:28:33: error: custom op 'nonsense' is unknown{{.*}}
// COLOR-NOT: note:
// COLOR: error: {{.*}}type of return operand
// SHORT-NOT: see current operation
func.func @types(%a: f32) -> i32 {
  return %a : f32
}

// -----

func.func @good() {
  return
}

// -----

func.func private @syntax()     nonsense
