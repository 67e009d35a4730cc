// Our passes and MLIR's in one pipeline, with nesting and options; as flags; through bytecode.
// RUN: rammer-opt %s --pass-pipeline='builtin.module(func.func(canonicalize{max-iterations=3},cse), rtask-form-operators, canonicalize)' | filecheck %s
// RUN: rammer-opt %s --canonicalize=max-iterations=3 --cse --rtask-form-operators --canonicalize -o - | filecheck %s
// RUN: rammer-opt %s --emit-bytecode | rammer-opt - --cse --rtask-form-operators | filecheck %s
// RUN: rammer-opt %s --cse --rtask-form-operators --mlir-print-ir-after-all --mlir-timing --mlir-print-debuginfo -o /dev/null 2>&1 | filecheck %s --check-prefix=LOG

// CHECK: func.func private @addf_0(%arg0: tensor<4xf32>) -> tensor<4xf32>
// CHECK-LABEL: func.func @main
// CHECK-NEXT: %0 = rtask.operator @addf_0(%arg0) : (tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT: return %0, %0

// LOG: IR Dump After cse //----- //
// LOG: arith.addf {{.*}} loc(
// LOG: IR Dump After rtask-form-operators
// LOG: rtask.operator
// LOG: Execution time report
// LOG: {{[0-9.]+}} ({{.*}}%) Parser
// LOG-NEXT: {{[0-9.]+}} ({{.*}}%) cse
// LOG-NEXT: {{[0-9.]+}} ({{.*}}%) rtask-form-operators
// LOG-NEXT: {{[0-9.]+}} ({{.*}}%) Output
// LOG-NEXT: {{[0-9.]+}} ({{.*}}%) Rest
// LOG-NEXT: {{[0-9.]+}} (100.0%) Total
func.func @main(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = arith.addf %a, %a : tensor<4xf32>
  %1 = arith.addf %a, %a : tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
