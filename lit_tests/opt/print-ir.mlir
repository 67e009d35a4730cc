// The IR before and after passes, named ones or all, only where it changes, or where a pass fails; to standard error or into a folder.
// RUN: rammer-opt %s --cse --canonicalize --rtask-form-operators --mlir-print-ir-after-change --mlir-print-ir-before=rtask-form-operators -o /dev/null 2>&1 | filecheck %s --check-prefix=CHANGE
// RUN: rammer-opt %s -p 'builtin.module(func.func(cse,canonicalize))' --mlir-print-ir-before-all --mlir-print-ir-after=canonicalize -o /dev/null 2>&1 | filecheck %s --check-prefix=NESTED
// RUN: not rammer-opt %s --cse --rtask-plan-memory --mlir-print-ir-after-failure -o /dev/null 2>&1 | filecheck %s --check-prefix=FAILURE
// RUN: rm -rf %t && rammer-opt %s --cse --rtask-form-operators --mlir-print-ir-before-all --mlir-print-ir-after-all --mlir-print-ir-tree-dir=%t -o /dev/null 2> %t.err
// RUN: not grep . %t.err
// RUN: filecheck %s --check-prefix=FILE --input-file %t/builtin_module_sample/3_rtask-form-operators.mlir
// RUN: ls %t/builtin_module_sample | filecheck %s --check-prefix=TREE

// CHANGE: IR Dump After cse //
// CHANGE-NOT: canonicalize
// CHANGE: IR Dump Before rtask-form-operators //
// CHANGE: arith.addf
// CHANGE: IR Dump After rtask-form-operators //
// CHANGE: rtask.operator @addf_0(
// NESTED: IR Dump Before func.func(cse) //
// NESTED-NOT: IR Dump After func.func(cse)
// NESTED: IR Dump Before func.func(canonicalize) //
// NESTED: IR Dump After func.func(canonicalize) //
// FAILURE-NOT: IR Dump After cse
// FAILURE: IR Dump After rtask-plan-memory Failed //
// FAILURE: module @sample
// FAILURE: error: expected at least one rtask.program
// FILE: IR Dump After rtask-form-operators //
// FILE-NEXT: module @sample
// TREE: 0_cse.mlir
// TREE-NEXT: 1_cse.mlir
// TREE-NEXT: 2_rtask-form-operators.mlir
// TREE-NEXT: 3_rtask-form-operators.mlir
module @sample {
  func.func @main(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %0 = arith.addf %a, %a : tensor<4xf32>
    %1 = arith.addf %a, %a : tensor<4xf32>
    return %0, %1 : tensor<4xf32>, tensor<4xf32>
  }
}
