// Regions without code go back to the host; named ones do too, with their code.
// RUN: rammer-opt %s --plugin %S/Inputs/codegens.py --pass-pipeline='builtin.module(linalg-generalize-named-ops,rtask-annotate-regions{codegens=writer},rtask-merge-regions,rtask-outline-regions,rtask-generate-regions,rtask-inline-regions)' | filecheck %s
// RUN: rammer-opt %s --plugin %S/Inputs/codegens.py --pass-pipeline='builtin.module(linalg-generalize-named-ops,rtask-annotate-regions{codegens=writer},rtask-merge-regions,rtask-outline-regions,rtask-generate-regions,rtask-inline-regions{regions=writer_0,writer_1},cse)' | filecheck %s --check-prefix=BOTH
// RUN: not rammer-opt %s --rtask-inline-regions=regions=nobody 2>&1 | filecheck %s --check-prefix=NONE
// NONE: 'rtask-inline-regions': regions: expected functions with rtask.codegen, of which there is none, found 'nobody'

// CHECK: rtask.module{{.*}}writer_0_code
// CHECK: func.func private @writer_0
// CHECK-NOT: @writer_1
// CHECK: func.func @main
// CHECK: %[[R:.*]] = call @writer_0(
// CHECK: %[[T:.*]] = linalg.generic {{.*}} ins(%[[R]] :
// CHECK: math.tanh
// CHECK: %[[M:.*]] = linalg.generic {{.*}} ins(%[[T]], %{{.*}} :
// CHECK: arith.mulf
// CHECK: return %[[M]]

// BOTH-NOT: rtask.module
// BOTH-NOT: private
// BOTH: func.func @main
// BOTH: arith.addf
// BOTH: arith.mulf
// BOTH: math.tanh
// BOTH: arith.mulf
func.func @main(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %e = tensor.empty() : tensor<4x8xf32>
  %0 = linalg.add ins(%x, %y : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = linalg.mul ins(%0, %y : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = linalg.tanh ins(%1 : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = linalg.mul ins(%2, %x : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}
