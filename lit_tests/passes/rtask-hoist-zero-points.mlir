// RUN: rammer-opt %s --split-input-file --inline --rtask-hoist-zero-points --canonicalize --cse | filecheck %s

#id = affine_map<(m, n) -> (m, n)>
#point = affine_map<(m, n) -> ()>
#column = affine_map<(m, n) -> (n)>
#row = affine_map<(m, n) -> (m)>
#left = affine_map<(m, n, k) -> (m, k)>
#right = affine_map<(m, n, k) -> (k, n)>
#result = affine_map<(m, n, k) -> (m, n)>

// An unsigned factor with a zero point of the run, and signed weights: the product reads the bytes,
// and the zero point is multiplied by the sums of the weights, which packing computes.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[A:[^:]*]]: tensor<5x16xi8>, %[[P:[^:]*]]: tensor<i8>, %[[W:[^:]*]]: tensor<16x8xi8> {rtask.constant = "w"}
// CHECK-SAME: %[[SUMS:[^:]*]]: tensor<8xi32> {rtask.constant = "w", rtask.pack = [array<i64: 16, 8>, si8]}
// CHECK: %[[D:.*]] = linalg.generic {{.*}} ins(%[[A]], %[[W]] : tensor<5x16xi8>, tensor<16x8xi8>)
// CHECK: arith.extui %{{.*}} : i8 to i32
// CHECK: arith.extsi %{{.*}} : i8 to i32
// CHECK: arith.muli
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[D]], %[[SUMS]], %[[P]] :
// CHECK: return %[[Y]]
func.func @main(%a: tensor<5x16xi8>, %p: tensor<i8>,
    %w: tensor<16x8xi8> {rtask.constant = "w"}) -> tensor<5x8xi32> {
  %zero = arith.constant 0 : i32
  %q = arith.constant dense<0> : tensor<8xi8>
  %ea = tensor.empty() : tensor<5x16xi32>
  %x = linalg.generic {indexing_maps = [#id, #point, #id], iterator_types = ["parallel", "parallel"]}
      ins(%a, %p : tensor<5x16xi8>, tensor<i8>) outs(%ea : tensor<5x16xi32>) {
  ^bb0(%in: i8, %by: i8, %out: i32):
    %0 = arith.extui %in : i8 to i32
    %1 = arith.extui %by : i8 to i32
    %2 = arith.subi %0, %1 : i32
    linalg.yield %2 : i32
  } -> tensor<5x16xi32>
  %ew = tensor.empty() : tensor<16x8xi32>
  %v = linalg.generic {indexing_maps = [#id, #column, #id], iterator_types = ["parallel", "parallel"]}
      ins(%w, %q : tensor<16x8xi8>, tensor<8xi8>) outs(%ew : tensor<16x8xi32>) {
  ^bb0(%in: i8, %by: i8, %out: i32):
    %0 = arith.extsi %in : i8 to i32
    %1 = arith.extsi %by : i8 to i32
    %2 = arith.subi %0, %1 : i32
    linalg.yield %2 : i32
  } -> tensor<16x8xi32>
  %e = tensor.empty() : tensor<5x8xi32>
  %init = linalg.fill ins(%zero : i32) outs(%e : tensor<5x8xi32>) -> tensor<5x8xi32>
  %y = linalg.generic {indexing_maps = [#left, #right, #result], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %v : tensor<5x16xi32>, tensor<16x8xi32>) outs(%init : tensor<5x8xi32>) {
  ^bb0(%in: i32, %by: i32, %out: i32):
    %0 = arith.muli %in, %by : i32
    %1 = arith.addi %out, %0 : i32
    linalg.yield %1 : i32
  } -> tensor<5x8xi32>
  return %y : tensor<5x8xi32>
}

// -----

#left = affine_map<(m, n, k) -> (m, k)>
#right = affine_map<(m, n, k) -> (k, n)>
#result = affine_map<(m, n, k) -> (m, n)>

// Two signed factors without zero points: the sign bit of each element of the left one is inverted.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[A:[^:]*]]: tensor<5x16xi8>, %[[W:[^:]*]]: tensor<16x8xi8>
// CHECK: %[[U:.*]] = linalg.generic {{.*}} ins(%[[A]] :
// CHECK: arith.xori %{{.*}}, %c-128_i8 : i8
// CHECK: linalg.generic {{.*}} ins(%[[U]], %[[W]] :
// CHECK: arith.extui
// CHECK: arith.extsi
// CHECK: arith.muli %{{.*}}, %c-128_i32 : i32
func.func @main(%a: tensor<5x16xi8>, %w: tensor<16x8xi8> {rtask.constant = "w"}) -> tensor<5x8xi32> {
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<5x8xi32>
  %init = linalg.fill ins(%zero : i32) outs(%e : tensor<5x8xi32>) -> tensor<5x8xi32>
  %y = linalg.generic {indexing_maps = [#left, #right, #result], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %w : tensor<5x16xi8>, tensor<16x8xi8>) outs(%init : tensor<5x8xi32>) {
  ^bb0(%in: i8, %by: i8, %out: i32):
    %0 = arith.extsi %in : i8 to i32
    %1 = arith.extsi %by : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %out, %2 : i32
    linalg.yield %3 : i32
  } -> tensor<5x8xi32>
  return %y : tensor<5x8xi32>
}

// -----

#id = affine_map<(n, c, x) -> (n, c, x)>
#point = affine_map<(n, c, x) -> ()>
#left = affine_map<(n, o, x, c, k) -> (n, c, x + k)>
#right = affine_map<(n, o, x, c, k) -> (o, c, k)>
#result = affine_map<(n, o, x, c, k) -> (n, o, x)>

// A convolution: the bytes are padded with the zero point, in strips if the run brings it.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[A:[^:]*]]: tensor<1x4x8xi8>, %[[P:[^:]*]]: tensor<i8>
// CHECK: %[[PADDED:.*]] = tensor.pad %[[A]] low[0, 0, 1] high[0, 0, 1]
// CHECK: tensor.yield %c3_i8 : i8
// CHECK: linalg.generic {{.*}} ins(%[[PADDED]], %{{.*}} : tensor<1x4x10xi8>, tensor<6x4x3xi8>)
// CHECK: %[[STRIP:.*]] = linalg.generic {{.*}} ins(%[[P]] : tensor<i8>) outs(%{{.*}} : tensor<1x4x1xi8>)
// CHECK: %[[CONCAT:.*]] = tensor.concat dim(2) %[[STRIP]], %[[A]], %[[STRIP]]
// CHECK: linalg.generic {{.*}} ins(%[[CONCAT]], %{{.*}} : tensor<1x4x10xi8>, tensor<6x4x3xi8>)
func.func @main(%a: tensor<1x4x8xi8>, %p: tensor<i8>,
    %w: tensor<6x4x3xi8> {rtask.constant = "w"}) -> (tensor<1x6x8xi32>, tensor<1x6x8xi32>) {
  %three = arith.constant dense<3> : tensor<i8>
  %0 = func.call @convolution(%a, %three, %w) : (tensor<1x4x8xi8>, tensor<i8>, tensor<6x4x3xi8>) -> tensor<1x6x8xi32>
  %1 = func.call @convolution(%a, %p, %w) : (tensor<1x4x8xi8>, tensor<i8>, tensor<6x4x3xi8>) -> tensor<1x6x8xi32>
  return %0, %1 : tensor<1x6x8xi32>, tensor<1x6x8xi32>
}
func.func private @convolution(%a: tensor<1x4x8xi8>, %p: tensor<i8>, %w: tensor<6x4x3xi8>) -> tensor<1x6x8xi32> {
  %zero = arith.constant 0 : i32
  %ea = tensor.empty() : tensor<1x4x8xi32>
  %x = linalg.generic {indexing_maps = [#id, #point, #id], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%a, %p : tensor<1x4x8xi8>, tensor<i8>) outs(%ea : tensor<1x4x8xi32>) {
  ^bb0(%in: i8, %by: i8, %out: i32):
    %0 = arith.extui %in : i8 to i32
    %1 = arith.extui %by : i8 to i32
    %2 = arith.subi %0, %1 : i32
    linalg.yield %2 : i32
  } -> tensor<1x4x8xi32>
  %ew = tensor.empty() : tensor<6x4x3xi32>
  %v = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%w : tensor<6x4x3xi8>) outs(%ew : tensor<6x4x3xi32>) {
  ^bb0(%in: i8, %out: i32):
    %0 = arith.extsi %in : i8 to i32
    linalg.yield %0 : i32
  } -> tensor<6x4x3xi32>
  %padded = tensor.pad %x low[0, 0, 1] high[0, 0, 1] {
  ^bb0(%i: index, %j: index, %k: index):
    tensor.yield %zero : i32
  } : tensor<1x4x8xi32> to tensor<1x4x10xi32>
  %e = tensor.empty() : tensor<1x6x8xi32>
  %init = linalg.fill ins(%zero : i32) outs(%e : tensor<1x6x8xi32>) -> tensor<1x6x8xi32>
  %y = linalg.generic {indexing_maps = [#left, #right, #result], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%padded, %v : tensor<1x4x10xi32>, tensor<6x4x3xi32>) outs(%init : tensor<1x6x8xi32>) {
  ^bb0(%in: i32, %by: i32, %out: i32):
    %0 = arith.muli %in, %by : i32
    %1 = arith.addi %out, %0 : i32
    linalg.yield %1 : i32
  } -> tensor<1x6x8xi32>
  return %y : tensor<1x6x8xi32>
}
