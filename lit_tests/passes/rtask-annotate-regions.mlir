// From the paper's figure 3 (b) to (c), first half: every supported operation, and the composite, is a region.
// RUN: rammer-opt %S/Inputs/regions.mlir --plugin %S/Inputs/codegens.py --linalg-generalize-named-ops --canonicalize --cse --rtask-match-composites=table=toy --rtask-annotate-regions=codegens=toy | filecheck %s
// RUN: rammer-opt %S/Inputs/regions.mlir --plugin %S/Inputs/codegens.py --linalg-generalize-named-ops --canonicalize --cse --rtask-match-composites=table=toy --rtask-annotate-regions=codegens=toy,greedy | filecheck %s --check-prefix=TWO
// RUN: rammer-opt %s --split-input-file --verify-diagnostics --plugin %S/Inputs/codegens.py --rtask-annotate-regions=codegens=toy

// CHECK: rtask.region = {codegen = "toy", id = 0 : i64}
// CHECK: rtask.region = {codegen = "toy", id = 1 : i64}
// CHECK: rtask.region = {codegen = "toy", id = 2 : i64}
// CHECK-NOT: rtask.region
// CHECK: math.tanh
// CHECK: rtask.composite = {{.*}}rtask.region = {codegen = "toy", id = 3 : i64}
// CHECK: rtask.composite = {{.*}}rtask.region = {codegen = "toy", id = 3 : i64}
// CHECK: rtask.composite = {{.*}}rtask.region = {codegen = "toy", id = 3 : i64}
// CHECK-NOT: rtask.composite
// CHECK: rtask.region = {codegen = "toy", id = 4 : i64}

// The first code generator that supports an operation takes it.
// TWO: rtask.region = {codegen = "toy", id = 2 : i64}
// TWO: rtask.region = {codegen = "greedy", id = 3 : i64}
// TWO-NEXT: ^bb0
// TWO-NEXT: math.tanh
// TWO: rtask.region = {codegen = "toy", id = 5 : i64}

func.func @main(%x: tensor<4x1xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{attribute 'rtask.region': expected {codegen = "NAME", id = N : i64}, found "toy"; remove it and run rtask-annotate-regions}}
  %0 = tensor.collapse_shape %x [[0, 1]] {rtask.region = "toy"} : tensor<4x1xf32> into tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4x1xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{attribute 'rtask.composite': expected {name = "NAME", match = N : i64}, found {match = -1 : i64, name = "toy"}; remove it and run rtask-match-composites}}
  %0 = tensor.collapse_shape %x [[0, 1]] {rtask.composite = {name = "toy", match = -1 : i64}} : tensor<4x1xf32> into tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4x1xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'tensor.empty': attribute 'rtask.region': expected an operation that computes a tensor, found one that every user gets a copy of; remove the attribute}}
  %0 = tensor.empty() {rtask.region = {codegen = "toy", id = 0 : i64}} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4xf32>) -> f32 {
  %c0 = arith.constant 0 : index
  // expected-error@+1 {{attribute 'rtask.region': expected results that are static tensors, found f32; remove the attribute}}
  %0 = tensor.extract %x[%c0] {rtask.region = {codegen = "toy", id = 0 : i64}} : tensor<4xf32>
  return %0 : f32
}

// -----

func.func @main(%x: tensor<4x1xf32>) -> (tensor<4xf32>, tensor<1x4xf32>) {
  %0 = tensor.collapse_shape %x [[0, 1]] {rtask.composite = {name = "toy.both", match = 0 : i64}} : tensor<4x1xf32> into tensor<4xf32>
  // expected-error@+1 {{composite 'toy.both', match 0: expected one operation whose result is used outside, the last one, found tensor.collapse_shape, tensor.expand_shape; match less}}
  %1 = tensor.expand_shape %0 [[0, 1]] output_shape [1, 4] {rtask.composite = {name = "toy.both", match = 0 : i64}} : tensor<4xf32> into tensor<1x4xf32>
  return %0, %1 : tensor<4xf32>, tensor<1x4xf32>
}

// -----

func.func @main(%x: tensor<4x1xf32>) -> tensor<1x4xf32> {
  %0 = tensor.collapse_shape %x [[0, 1]] {rtask.composite = {name = "toy.both", match = 0 : i64}, rtask.region = {codegen = "toy", id = 0 : i64}} : tensor<4x1xf32> into tensor<4xf32>
  // expected-error@+1 {{attribute 'rtask.region': expected one region for operations that belong together, found 0, none}}
  %1 = tensor.expand_shape %0 [[0, 1]] output_shape [1, 4] {rtask.composite = {name = "toy.both", match = 0 : i64}} : tensor<4xf32> into tensor<1x4xf32>
  return %1 : tensor<1x4xf32>
}
