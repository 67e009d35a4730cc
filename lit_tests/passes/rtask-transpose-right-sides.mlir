// RUN: rammer-opt %s --split-input-file --linalg-generalize-named-ops --rtask-transpose-right-sides --canonicalize --cse | filecheck %s
// RUN: rammer-opt %s --split-input-file --linalg-generalize-named-ops --rtask-transpose-right-sides='few=0 many=1000000' --canonicalize --cse | filecheck %s --check-prefix=KEPT

// The keys of an attention with one query: the product reads them in their own layout.
// CHECK: #[[KEYS:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>
// CHECK-LABEL: func.func @query
// CHECK-SAME: (%{{.*}}: tensor<12x1x64xf32>, %[[K:[a-z0-9]+]]: tensor<12x512x64xf32>)
// CHECK-COUNT-1: linalg.generic {indexing_maps = [#{{.*}}, #[[KEYS]], #{{.*}}]
// CHECK-SAME: ins(%{{.*}}, %[[K]] :
// CHECK-NOT: linalg.generic
// KEPT-LABEL: func.func @query
// KEPT-COUNT-2: linalg.generic
func.func @query(%q: tensor<12x1x64xf32>, %k: tensor<12x512x64xf32>) -> tensor<12x1x512xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<12x64x512xf32>
  %t = linalg.transpose ins(%k : tensor<12x512x64xf32>) outs(%e : tensor<12x64x512xf32>)
      permutation = [0, 2, 1]
  %empty = tensor.empty() : tensor<12x1x512xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<12x1x512xf32>) -> tensor<12x1x512xf32>
  %0 = linalg.batch_matmul ins(%q, %t : tensor<12x1x64xf32>, tensor<12x64x512xf32>)
      outs(%init : tensor<12x1x512xf32>) -> tensor<12x1x512xf32>
  return %0 : tensor<12x1x512xf32>
}

// -----

// With many rows, a transposed right side is copied so that the elements of a row are adjacent.
// CHECK-LABEL: func.func @rows
// CHECK-SAME: %[[B:[a-z0-9]+]]: tensor<80x64xf32>
// CHECK: %[[COPY:.*]] = linalg.generic {{.*}} ins(%[[B]] : tensor<80x64xf32>) outs(%{{.*}} : tensor<64x80xf32>)
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %[[COPY]] : tensor<197x64xf32>, tensor<64x80xf32>)
// KEPT-LABEL: func.func @rows
// KEPT-COUNT-1: linalg.generic {{.*}}"reduction"
#left = affine_map<(m, n, k) -> (m, k)>
#right = affine_map<(m, n, k) -> (n, k)>
#result = affine_map<(m, n, k) -> (m, n)>
func.func @rows(%a: tensor<197x64xf32>, %b: tensor<80x64xf32>) -> tensor<197x80xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<197x80xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<197x80xf32>) -> tensor<197x80xf32>
  %0 = linalg.generic {indexing_maps = [#left, #right, #result],
                       iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : tensor<197x64xf32>, tensor<80x64xf32>) outs(%init : tensor<197x80xf32>) {
  ^bb0(%x: f32, %y: f32, %s: f32):
    %p = arith.mulf %x, %y : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<197x80xf32>
  return %0 : tensor<197x80xf32>
}

// -----

// Weights have their layout from elsewhere.
// CHECK-LABEL: func.func @weights
// CHECK-COUNT-1: linalg.generic {{.*}}"reduction"
// CHECK-NOT: linalg.generic
#left = affine_map<(m, n, k) -> (m, k)>
#right = affine_map<(m, n, k) -> (n, k)>
#result = affine_map<(m, n, k) -> (m, n)>
func.func @weights(%a: tensor<197x64xf32>, %b: tensor<80x64xf32> {rtask.constant = "b"}) -> tensor<197x80xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<197x80xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<197x80xf32>) -> tensor<197x80xf32>
  %0 = linalg.generic {indexing_maps = [#left, #right, #result],
                       iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : tensor<197x64xf32>, tensor<80x64xf32>) outs(%init : tensor<197x80xf32>) {
  ^bb0(%x: f32, %y: f32, %s: f32):
    %p = arith.mulf %x, %y : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<197x80xf32>
  return %0 : tensor<197x80xf32>
}

// -----

// A large right side is copied in panels of 32 columns, which the product reads by panel and column.
// CHECK-DAG: #[[FROM:.*]] = affine_map<(d0, d1, d2) -> (d1, d0 * 32 + d2)>
// CHECK-DAG: #[[PANELS:.*]] = affine_map<(d0, d1, d2) -> (d1 floordiv 32, d2, d1 mod 32)>
// CHECK-LABEL: func.func @large
// CHECK-SAME: %[[B:[a-z0-9]+]]: tensor<1024x128xf32>
// CHECK: %[[COPY:.*]] = linalg.generic {indexing_maps = [#[[FROM]], #{{.*}}], {{.*}} ins(%[[B]] : tensor<1024x128xf32>) outs(%{{.*}} : tensor<4x1024x32xf32>)
// CHECK: linalg.generic {indexing_maps = [#{{.*}}, #[[PANELS]], #{{.*}}], {{.*}} ins(%{{.*}}, %[[COPY]] : tensor<128x1024xf32>, tensor<4x1024x32xf32>)
func.func @large(%a: tensor<128x1024xf32>, %b: tensor<1024x128xf32>) -> tensor<128x128xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<128x128xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<128x128xf32>) -> tensor<128x128xf32>
  %0 = linalg.matmul ins(%a, %b : tensor<128x1024xf32>, tensor<1024x128xf32>)
      outs(%init : tensor<128x128xf32>) -> tensor<128x128xf32>
  return %0 : tensor<128x128xf32>
}
