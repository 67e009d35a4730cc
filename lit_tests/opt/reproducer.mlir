// A reproducer holds the module before the first pass, or before the pass that fails, and the rest of the pipeline; none is left where nothing fails.
// RUN: rm -f %t.mlir %t.local.mlir %t.all.mlir
// RUN: rammer-opt %s --cse --mlir-pass-pipeline-crash-reproducer=%t.mlir -o /dev/null
// RUN: not ls %t.mlir
// RUN: not rammer-opt %s --cse --canonicalize --rtask-plan-memory --mlir-pass-pipeline-crash-reproducer=%t.mlir 2>&1 | filecheck %s --check-prefix=ERROR
// RUN: filecheck %s --check-prefix=WHOLE --input-file %t.mlir
// RUN: not rammer-opt %t.mlir --run-reproducer 2>&1 | filecheck %s --check-prefix=ERROR
// RUN: not rammer-opt %s --cse --rtask-plan-memory --mlir-pass-pipeline-crash-reproducer=%t.local.mlir --mlir-pass-pipeline-local-reproducer 2>&1 | filecheck %s --check-prefix=ERROR
// RUN: filecheck %s --check-prefix=LOCAL --input-file %t.local.mlir
// RUN: rammer-opt %s --cse --rtask-form-operators --verify-each=false --mlir-generate-reproducer=%t.all.mlir -o /dev/null
// RUN: rammer-opt %t.all.mlir -run-reproducer -dump-pass-pipeline 2>&1 | filecheck %s --check-prefix=AGAIN
// RUN: not rammer-opt %s -run-reproducer 2>&1 | filecheck %s --check-prefix=NONE
// RUN: not rammer-opt %s --cse --rtask-schedule --mlir-pass-pipeline-crash-reproducer=%t.mlir 2>&1 | filecheck %s --check-prefix=PLACE
// RUN: not rammer-opt %t.mlir --run-reproducer 2>&1 | filecheck %s --check-prefix=PLACE

// ERROR: error: expected at least one rtask.program, found none: run rtask-schedule first
// WHOLE: arith.addf
// WHOLE: arith.addf
// WHOLE: mlir_reproducer: {
// WHOLE-NEXT: pipeline: "builtin.module(cse,canonicalize,rtask-plan-memory)",
// WHOLE-NEXT: disable_threading: true,
// WHOLE-NEXT: verify_each: true
// LOCAL: arith.addf
// LOCAL-NOT: arith.addf
// LOCAL: pipeline: "builtin.module(rtask-plan-memory)"
// AGAIN: rtask-form-operators{
// AGAIN: rtask.operator @addf_0
// PLACE-NOT: warning
// PLACE: reproducer.mlir:{{[0-9]+}}:1: error: 'func.func': expected static memrefs
// NONE: error: --run-reproducer: expected external_resources of 'mlir_reproducer' with a pipeline
func.func @main(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = arith.addf %a, %a : tensor<4xf32>
  %1 = arith.addf %a, %a : tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
