// RUN: rammer-opt %s --split-input-file --rtask-distribute-activations | filecheck %s

// What is done with each element of the concatenation is done with its parts.
// CHECK: func.func @main(%[[X:.*]]: tensor<2x4xf32>, %[[Y:.*]]: tensor<2x3xf32>)
// CHECK: %[[A:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[X]] :
// CHECK: %[[B:.*]] = linalg.generic {{.*}} ins(%[[A]] : tensor<2x4xf32>) outs(%{{.*}} : tensor<2x4xf32>)
// CHECK: arith.maximumf
// CHECK: %[[C:.*]] = linalg.generic {{.*}} ins(%[[Y]] : tensor<2x3xf32>) outs(%{{.*}} : tensor<2x3xf32>)
// CHECK: arith.maximumf
// CHECK: %[[D:.*]] = tensor.concat dim(1) %[[B]], %[[C]] : (tensor<2x4xf32>, tensor<2x3xf32>) -> tensor<2x7xf32>
// CHECK: return %[[D]]
#same = affine_map<(i, j) -> (i, j)>
func.func @main(%x: tensor<2x4xf32>, %y: tensor<2x3xf32>) -> tensor<2x7xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<2x4xf32>
  %1 = linalg.generic {indexing_maps = [#same, #same, #same], iterator_types = ["parallel", "parallel"]}
      ins(%x, %x : tensor<2x4xf32>, tensor<2x4xf32>) outs(%0 : tensor<2x4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<2x4xf32>
  %2 = tensor.concat dim(1) %1, %y : (tensor<2x4xf32>, tensor<2x3xf32>) -> tensor<2x7xf32>
  %3 = tensor.empty() : tensor<2x7xf32>
  %4 = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}
      ins(%2 : tensor<2x7xf32>) outs(%3 : tensor<2x7xf32>) {
  ^bb0(%a: f32, %b: f32):
    %m = arith.maximumf %a, %zero : f32
    linalg.yield %m : f32
  } -> tensor<2x7xf32>
  return %4 : tensor<2x7xf32>
}

// -----

// Something else reads the largest part: it would be computed in two forms.
// CHECK: func.func @read_elsewhere
// CHECK: tensor.concat
// CHECK-NEXT: tensor.empty
// CHECK-NEXT: linalg.generic {{.*}} ins(%{{.*}} : tensor<2x7xf32>)
#same = affine_map<(i, j) -> (i, j)>
func.func @read_elsewhere(%x: tensor<2x4xf32>, %y: tensor<2x3xf32>) -> (tensor<2x7xf32>, tensor<2x4xf32>) {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<2x4xf32>
  %1 = linalg.generic {indexing_maps = [#same, #same, #same], iterator_types = ["parallel", "parallel"]}
      ins(%x, %x : tensor<2x4xf32>, tensor<2x4xf32>) outs(%0 : tensor<2x4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<2x4xf32>
  %2 = tensor.concat dim(1) %1, %y : (tensor<2x4xf32>, tensor<2x3xf32>) -> tensor<2x7xf32>
  %3 = tensor.empty() : tensor<2x7xf32>
  %4 = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}
      ins(%2 : tensor<2x7xf32>) outs(%3 : tensor<2x7xf32>) {
  ^bb0(%a: f32, %b: f32):
    %m = arith.maximumf %a, %zero : f32
    linalg.yield %m : f32
  } -> tensor<2x7xf32>
  return %4, %1 : tensor<2x7xf32>, tensor<2x4xf32>
}

// -----

// Rows of the whole get different numbers: this is no function of single elements.
// CHECK: func.func @by_row
// CHECK: tensor.concat
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<2x7xf32>, tensor<2xf32>)
#same = affine_map<(i, j) -> (i, j)>
func.func @by_row(%x: tensor<2x4xf32>, %r: tensor<2xf32>) -> tensor<2x7xf32> {
  %0 = tensor.empty() : tensor<2x4xf32>
  %1 = linalg.generic {indexing_maps = [#same, #same, #same], iterator_types = ["parallel", "parallel"]}
      ins(%x, %x : tensor<2x4xf32>, tensor<2x4xf32>) outs(%0 : tensor<2x4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<2x4xf32>
  %y = tensor.extract_slice %x[0, 0] [2, 3] [1, 1] : tensor<2x4xf32> to tensor<2x3xf32>
  %2 = tensor.concat dim(1) %1, %y : (tensor<2x4xf32>, tensor<2x3xf32>) -> tensor<2x7xf32>
  %3 = tensor.empty() : tensor<2x7xf32>
  %4 = linalg.generic {indexing_maps = [#same, affine_map<(i, j) -> (i)>, #same], iterator_types = ["parallel", "parallel"]}
      ins(%2, %r : tensor<2x7xf32>, tensor<2xf32>) outs(%3 : tensor<2x7xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %m = arith.mulf %a, %b : f32
    linalg.yield %m : f32
  } -> tensor<2x7xf32>
  return %4 : tensor<2x7xf32>
}
