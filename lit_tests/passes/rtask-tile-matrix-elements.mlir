// RUN: rammer-opt %s --linalg-generalize-named-ops --rtask-tile='device=h100 num-veus=132 matrix-elements=f16,tf32' | filecheck %s
// RUN: rammer-opt %s --linalg-generalize-named-ops --rtask-tile='device=h100 num-veus=132' | filecheck %s --check-prefix=NONE

// Sums of products of f16 in f32 take the time of matrix instructions, and those of f32 too if tf32
// is permitted. Conversions of factors are no operations. A single row is no matrix.
// CHECK: rtask.kernel @half_t0 {{.*}}attributes {matrix_element = "f16"}
// CHECK: rtask.kernel @half_t1 {{.*}}attributes {matrix_element = "f16"}
// CHECK: rtask.kernel @single_t0 {{.*}}attributes {matrix_element = "tf32"}
// CHECK: rtask.kernel @row_t0
// CHECK-NOT: matrix_element
// NONE: rtask.kernel @half_t0
// NONE-NOT: matrix_element
func.func private @half(%x: tensor<512x512xf16>, %w: tensor<512x512xf16>) -> tensor<512x512xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<512x512xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<512x512xf32>) -> tensor<512x512xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<512x512xf16>, tensor<512x512xf16>)
      outs(%init : tensor<512x512xf32>) -> tensor<512x512xf32>
  return %0 : tensor<512x512xf32>
}
func.func private @single(%x: tensor<512x512xf32>, %w: tensor<512x512xf32>) -> tensor<512x512xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<512x512xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<512x512xf32>) -> tensor<512x512xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<512x512xf32>, tensor<512x512xf32>)
      outs(%init : tensor<512x512xf32>) -> tensor<512x512xf32>
  return %0 : tensor<512x512xf32>
}
func.func private @row(%x: tensor<1x512xf16>, %w: tensor<512x512xf16>) -> tensor<1x512xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<1x512xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x512xf32>) -> tensor<1x512xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<1x512xf16>, tensor<512x512xf16>)
      outs(%init : tensor<1x512xf32>) -> tensor<1x512xf32>
  return %0 : tensor<1x512xf32>
}
func.func @main(%x: tensor<512x512xf16>, %w: tensor<512x512xf16>, %a: tensor<512x512xf32>, %r: tensor<1x512xf16>)
    -> (tensor<512x512xf32>, tensor<512x512xf32>, tensor<1x512xf32>) {
  %0 = rtask.operator @half(%x, %w) : (tensor<512x512xf16>, tensor<512x512xf16>) -> tensor<512x512xf32>
  %1 = rtask.operator @single(%a, %a) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  %2 = rtask.operator @row(%r, %w) : (tensor<1x512xf16>, tensor<512x512xf16>) -> tensor<1x512xf32>
  return %0, %1, %2 : tensor<512x512xf32>, tensor<512x512xf32>, tensor<1x512xf32>
}
