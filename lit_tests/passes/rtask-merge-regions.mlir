// From the paper's figure 3 (b) to (c), second half: neighbors become two regions around the host's operation.
// RUN: rammer-opt %S/Inputs/regions.mlir --plugin %S/Inputs/codegens.py --linalg-generalize-named-ops --canonicalize --cse --rtask-match-composites=table=toy --rtask-annotate-regions=codegens=toy --rtask-merge-regions | filecheck %s --check-prefix=FIGURE
// RUN: rammer-opt %S/Inputs/regions.mlir --plugin %S/Inputs/codegens.py --linalg-generalize-named-ops --canonicalize --cse --rtask-match-composites=table=toy --rtask-annotate-regions=codegens=toy --rtask-merge-regions=operands=3 | filecheck %s --check-prefix=THREE
// RUN: rammer-opt %s --split-input-file --verify-diagnostics --rtask-merge-regions

// FIGURE-COUNT-3: id = 0 : i64
// FIGURE-NOT: rtask.region
// FIGURE: math.tanh
// FIGURE-COUNT-4: id = 1 : i64
// FIGURE-NOT: rtask.region

// The composite has four operands with its result, so that nothing joins it.
// THREE-COUNT-3: id = 0 : i64
// THREE: math.tanh
// THREE-COUNT-3: id = 1 : i64
// THREE: id = 2 : i64

func.func @main(%x: tensor<4x1xf32>) -> tensor<1x1x4xf32> {
  %0 = tensor.collapse_shape %x [[0, 1]] {rtask.region = {codegen = "toy", id = 0 : i64}} : tensor<4x1xf32> into tensor<4xf32>
  %1 = tensor.expand_shape %0 [[0, 1]] output_shape [1, 4] : tensor<4xf32> into tensor<1x4xf32>
  // expected-error@+1 {{region 0 of 'toy': expected no path that leaves the region and comes back, or that goes through another region and back, found one}}
  %2 = tensor.expand_shape %1 [[0, 1], [2]] output_shape [1, 1, 4] {rtask.region = {codegen = "toy", id = 0 : i64}} : tensor<1x4xf32> into tensor<1x1x4xf32>
  return %2 : tensor<1x1x4xf32>
}

// -----

func.func @main(%x: tensor<4x1xf32>) -> tensor<1x4xf32> {
  %0 = tensor.collapse_shape %x [[0, 1]] {rtask.region = {codegen = "toy", id = 0 : i64}} : tensor<4x1xf32> into tensor<4xf32>
  // expected-error@+1 {{attribute 'rtask.region': expected region 0 to be for 'toy' everywhere, found 'other'; give it another id}}
  %1 = tensor.expand_shape %0 [[0, 1]] output_shape [1, 4] {rtask.region = {codegen = "other", id = 0 : i64}} : tensor<4xf32> into tensor<1x4xf32>
  return %1 : tensor<1x4xf32>
}
