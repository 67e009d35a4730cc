// What the tool prints of itself: help, completion of shells, references; other tools verify the dialect's portable form by its definition in IRDL.
// RUN: rammer-opt --help | filecheck %s --check-prefix=HELP
// RUN: rammer-opt --print-completion bash | filecheck %s --check-prefix=BASH
// RUN: rammer-opt --print-reference | filecheck %s --check-prefix=DIALECT
// RUN: rammer-opt --print-pass-reference | filecheck %s --check-prefix=PASSES
// RUN: rammer-opt --print-irdl | filecheck %s --check-prefix=IRDL
// RUN: rammer-opt %s --rtask-form-operators --print-rtask-segments | filecheck %s --check-prefix=SEGMENTS
// RUN: rammer-opt %s --rtask-form-operators --print-rtask-segments | rammer-opt | filecheck %s --check-prefix=AGAIN

// HELP: usage: rammer-opt [INPUT|-] [-o OUT] [--pass-pipeline=PIPELINE | --PASS[=OPTIONS] ...]
// HELP: --list-passes
// BASH: complete {{.*}}rammer-opt
// DIALECT: # The `rtask` dialect
// DIALECT: ## `rtask.operator`
// PASSES: # Passes
// PASSES: ### rtask-form-operators
// PASSES: `boundary`
// IRDL: irdl.dialect @rtask {
// IRDL: irdl.operation @operator {
// SEGMENTS: "rtask.operator"({{.*}}operandSegmentSizes = array<i32: {{.*}}resultSegmentSizes = array<i32:
// AGAIN: rtask.operator @addf_0(%arg0) : (tensor<4xf32>) -> tensor<4xf32>
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.addf %a, %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}
