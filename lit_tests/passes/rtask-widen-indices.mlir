// RUN: rammer-opt %s --rtask-widen-indices --canonicalize | filecheck %s

// A hash of an index exceeds 32 bits; its remainder does not.
// CHECK-LABEL: func.func @hash
// CHECK: %[[I:.*]] = linalg.index 0
// CHECK: %[[WIDE:.*]] = arith.index_cast %[[I]] : index to i64
// CHECK: %[[PRODUCT:.*]] = arith.muli %[[WIDE]], %{{.*}} : i64
// CHECK: %[[REST:.*]] = arith.remui %[[PRODUCT]], %{{.*}} : i64
// CHECK: linalg.yield %[[REST]] : i64
func.func @hash() -> tensor<32xi64> {
  %empty = tensor.empty() : tensor<32xi64>
  %found = linalg.generic {
    indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]
  } outs(%empty : tensor<32xi64>) {
  ^bb0(%old: i64):
    %i = linalg.index 0 : index
    %factor = arith.constant 2654435761 : index
    %size = arith.constant 97 : index
    %product = arith.muli %i, %factor : index
    %rest = arith.remui %product, %size : index
    %wide = arith.index_cast %rest : index to i64
    linalg.yield %wide : i64
  } -> tensor<32xi64>
  return %found : tensor<32xi64>
}

// An index from a tensor of i64 is clamped as i64; the clamped index fits.
// CHECK-LABEL: func.func @clamped
// CHECK: ^bb0(%[[V:.*]]: i64, %{{.*}}: f32):
// CHECK-NEXT: %[[LOW:.*]] = arith.maxsi %[[V]], %{{.*}} : i64
// CHECK-NEXT: %[[HIGH:.*]] = arith.minsi %[[LOW]], %{{.*}} : i64
// CHECK-NEXT: %[[AT:.*]] = arith.index_cast %[[HIGH]] : i64 to index
// CHECK-NEXT: tensor.extract %{{.*}}[%[[AT]]]
func.func @clamped(%places: tensor<32xi64>, %x: tensor<8xf32>) -> tensor<32xf32> {
  %empty = tensor.empty() : tensor<32xf32>
  %found = linalg.generic {
    indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
    iterator_types = ["parallel"]
  } ins(%places : tensor<32xi64>) outs(%empty : tensor<32xf32>) {
  ^bb0(%v: i64, %old: f32):
    %zero = arith.constant 0 : index
    %last = arith.constant 7 : index
    %i = arith.index_cast %v : i64 to index
    %low = arith.maxsi %i, %zero : index
    %high = arith.minsi %low, %last : index
    %element = tensor.extract %x[%high] : tensor<8xf32>
    linalg.yield %element : f32
  } -> tensor<32xf32>
  return %found : tensor<32xf32>
}

// Indices below 2^31 stay: CHECK-LABEL: func.func @narrow
// CHECK: arith.muli %{{.*}}, %{{.*}} : index
// CHECK: arith.cmpi ult, %{{.*}}, %{{.*}} : index
func.func @narrow(%x: tensor<8x1000xf32>) -> tensor<8x1000xi1> {
  %empty = tensor.empty() : tensor<8x1000xi1>
  %found = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]
  } outs(%empty : tensor<8x1000xi1>) {
  ^bb0(%old: i1):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %columns = arith.constant 1000 : index
    %row = arith.muli %i, %columns : index
    %place = arith.addi %row, %j : index
    %is_before = arith.cmpi ult, %place, %columns : index
    linalg.yield %is_before : i1
  } -> tensor<8x1000xi1>
  return %found : tensor<8x1000xi1>
}
