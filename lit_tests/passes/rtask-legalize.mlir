// RUN: rammer-opt %s --split-input-file --verify-diagnostics --rtask-legalize | filecheck %s

// Elementwise operations on tensors become linalg.
// CHECK-LABEL: func.func @elementwise
// CHECK-NOT: arith.addf %{{.*}} : tensor
// CHECK: linalg.generic
// CHECK: arith.addf %{{.*}} : f32
func.func @elementwise(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
  %r = arith.addf %a, %b : tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

// Calls are inlined.
// CHECK-NOT: @helper
// CHECK-LABEL: func.func @caller
// CHECK: math.exp
func.func private @helper(%a: tensor<8xf32>) -> tensor<8xf32> {
  %r = math.exp %a : tensor<8xf32>
  return %r : tensor<8xf32>
}
func.func @caller(%a: tensor<8xf32>) -> tensor<8xf32> {
  %r = func.call @helper(%a) : (tensor<8xf32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

// TOSA and StableHLO become linalg.
// CHECK-LABEL: func.func @tosa
// CHECK: math.tanh
// CHECK-LABEL: func.func @stablehlo
// CHECK: math.exp
func.func @tosa(%a: tensor<4xf32>) -> tensor<4xf32> {
  %r = tosa.tanh %a : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
func.func @stablehlo(%a: tensor<4xf32>) -> tensor<4xf32> {
  %r = stablehlo.exponential %a : tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// Everything that is left is refused in one go.
func.func @refused(%a: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{expected linalg, tensor, arith and math operations, found 'bufferization.dealloc_tensor'; give tensors, and leave bufferization to the compiler}}
  bufferization.dealloc_tensor %a : tensor<4xf32>
  return %a : tensor<4xf32>
}

// -----

// expected-error @below {{argument 0: expected a tensor, found memref<4xf32>}}
// expected-error @below {{expected at least one result, found none}}
func.func @buffers(%a: memref<4xf32>) {
  return
}

// -----

// expected-error @below {{expected one block, found 3; give structured control flow (scf), or functions of one block}}
func.func @blocks(%a: tensor<4xf32>, %c: i1) -> tensor<4xf32> {
  cf.cond_br %c, ^end, ^nowhere
^end:
  return %a : tensor<4xf32>
^nowhere:
  llvm.unreachable
}

// -----

// Complex numbers become tensors of their parts; arguments and results have both.
// CHECK-LABEL: func.func @complex_sum
// CHECK-SAME: (%[[A:.*]]: tensor<4x2xf32>) -> tensor<4x2xf32>
// CHECK: %[[RE:.*]] = tensor.extract_slice %[[A]][0, 0] [4, 1] [1, 1]
// CHECK: %[[IM:.*]] = tensor.extract_slice %[[A]][0, 1] [4, 1] [1, 1]
// CHECK: linalg.generic {{.*}} ins(%[[RE]], %[[IM]], %[[RE]], %[[IM]] :
// CHECK: arith.addf
// CHECK: arith.addf
// CHECK: tensor.concat dim(1)
func.func @complex_sum(%a: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>> {
  %0 = stablehlo.add %a, %a : tensor<4xcomplex<f32>>
  return %0 : tensor<4xcomplex<f32>>
}

// -----

// Narrow floats are bytes, and are computed in f32.
// CHECK-LABEL: func.func @narrow_sum
// CHECK-SAME: (%{{.*}}: tensor<4xi8>) -> tensor<4xi8>
// CHECK: arith.addf {{.*}} : f32
func.func @narrow_sum(%a: tensor<4xf8E4M3FN>) -> tensor<4xf8E4M3FN> {
  %0 = arith.addf %a, %a : tensor<4xf8E4M3FN>
  return %0 : tensor<4xf8E4M3FN>
}

// -----

// Integers of other widths wrap around in their own.
// CHECK-LABEL: func.func @odd_sum
// CHECK-SAME: (%{{.*}}: tensor<4xi8>) -> tensor<4xi8>
// CHECK: arith.trunci {{.*}} : i8 to i4
// CHECK: arith.addi {{.*}} : i4
// CHECK: arith.extui {{.*}} : i4 to i8
func.func @odd_sum(%a: tensor<4xi4>) -> tensor<4xi4> {
  %0 = arith.addi %a, %a : tensor<4xi4>
  return %0 : tensor<4xi4>
}

// -----

// Assertions are assumed to hold; the indices that they may be about stay within the tensor.
// CHECK-LABEL: func.func @asserted_rows
// CHECK-SAME: (%{{.*}}: tensor<5xi32>, %[[T:.*]]: tensor<9x4xf32>)
// CHECK-DAG: %[[LAST:.*]] = arith.constant 8 : index
// CHECK-DAG: %[[FIRST:.*]] = arith.constant 0 : index
// CHECK-NOT: cf.assert
// CHECK: %[[ROW:.*]] = arith.index_cast
// CHECK: %[[COLUMN:.*]] = linalg.index 1
// CHECK: %[[LOW:.*]] = arith.maxsi %[[ROW]], %[[FIRST]]
// CHECK: %[[HIGH:.*]] = arith.minsi %[[LOW]], %[[LAST]]
// CHECK: tensor.extract %[[T]][%[[HIGH]], %[[COLUMN]]]
func.func @asserted_rows(%rows: tensor<5xi32>, %table: tensor<9x4xf32>) -> tensor<5x4xf32> {
  %end = arith.constant 9 : i32
  %empty = tensor.empty() : tensor<5x4xf32>
  %found = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%rows : tensor<5xi32>) outs(%empty : tensor<5x4xf32>) {
  ^bb0(%row: i32, %out: f32):
    %is_below = arith.cmpi slt, %row, %end : i32
    cf.assert %is_below, "row is too large"
    %i = arith.index_cast %row : i32 to index
    %j = linalg.index 1 : index
    %element = tensor.extract %table[%i, %j] : tensor<9x4xf32>
    linalg.yield %element : f32
  } -> tensor<5x4xf32>
  return %found : tensor<5x4xf32>
}

// -----

// No index is within a tensor without elements.
func.func @asserted_nothing(%rows: tensor<5xi32>, %table: tensor<0xf32>) -> tensor<5xf32> {
  %zero = arith.constant 0 : i32
  %empty = tensor.empty() : tensor<5xf32>
  %found = linalg.generic {
    indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]
  } ins(%rows : tensor<5xi32>) outs(%empty : tensor<5xf32>) {
  ^bb0(%row: i32, %out: f32):
    %is_positive = arith.cmpi sge, %row, %zero : i32
    cf.assert %is_positive, "row is negative"
    %i = arith.index_cast %row : i32 to index
    // expected-error @below {{'tensor.extract': expected a tensor with elements, found shape [0], of which no index is within bounds; give it elements}}
    %element = tensor.extract %table[%i] : tensor<0xf32>
    linalg.yield %element : f32
  } -> tensor<5xf32>
  return %found : tensor<5xf32>
}

// -----

// A scan becomes a step for each power of two below the length.
// CHECK-LABEL: func.func @scan
// CHECK-COUNT-3: tensor.concat dim(0)
// CHECK-NOT: tensor.concat
// CHECK: return
func.func @scan(%x: tensor<7xf32>) -> tensor<7xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<7xf32>
  %start = tensor.splat %zero : tensor<f32>
  %sums:2 = tm_tensor.scan dimension(0) inclusive(true) ins(%x : tensor<7xf32>)
      outs(%empty, %start : tensor<7xf32>, tensor<f32>) {
  ^bb0(%before: f32, %now: f32):
    %sum = arith.addf %before, %now : f32
    tm_tensor.yield %sum : f32
  } -> tensor<7xf32>, tensor<f32>
  return %sums#0 : tensor<7xf32>
}

// -----

// A scatter becomes a reduction over the updates.
// CHECK-LABEL: func.func @scatter
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "reduction"]
// CHECK: arith.cmpi eq
// CHECK: arith.maxsi
// CHECK: arith.select
func.func @scatter(%t: tensor<6xi32>, %i: tensor<3x1xi64>, %u: tensor<3xi32>) -> tensor<6xi32> {
  %s = tm_tensor.scatter {dimension_map = array<i64: 0>} unique_indices(false)
      ins(%u, %i : tensor<3xi32>, tensor<3x1xi64>) outs(%t : tensor<6xi32>) {
  ^bb0(%new: i32, %old: i32):
    %largest = arith.maxsi %old, %new : i32
    tm_tensor.yield %largest : i32
  } -> tensor<6xi32>
  return %s : tensor<6xi32>
}

// -----

// A sort counts the elements before each element; NaN is the largest.
// CHECK-LABEL: func.func @sort
// CHECK: linalg.generic
// CHECK-COUNT-2: arith.cmpf uno
// CHECK: linalg.generic
func.func @sort(%x: tensor<4x5xf32>) -> tensor<4x5xf32> {
  %sorted = tm_tensor.sort dimension(1) outs(%x : tensor<4x5xf32>) {
  ^bb0(%a: f32, %b: f32):
    %first = arith.cmpf ole, %a, %b : f32
    tm_tensor.yield %first : i1
  } -> tensor<4x5xf32>
  return %sorted : tensor<4x5xf32>
}

// -----

// What is not supported is refused with the reason.
func.func @unsupported(%x: tensor<7xf32>, %start: tensor<f32>) -> (tensor<7xf32>, tensor<2xf32>) {
  %empty = tensor.empty() : tensor<7xf32>
  // expected-error @below {{found 'tm_tensor.scan'; give static shapes, and combine elements by one associative operation}}
  %scanned:2 = tm_tensor.scan dimension(0) inclusive(true) ins(%x : tensor<7xf32>)
      outs(%empty, %start : tensor<7xf32>, tensor<f32>) {
  ^bb0(%before: f32, %now: f32):
    %difference = arith.subf %before, %now : f32
    tm_tensor.yield %difference : f32
  } -> tensor<7xf32>, tensor<f32>
  %best = tensor.empty() : tensor<2xf32>
  %places = tensor.empty() : tensor<2xi32>
  // expected-error @below {{found 'tm_tensor.topk'; give static shapes, at most 4096 elements along the dimension, no more results than elements, and results that start at a limit of their type}}
  %found:2 = tm_tensor.topk dimension(0) ins(%x : tensor<7xf32>)
      outs(%best, %places : tensor<2xf32>, tensor<2xi32>) {
  ^bb0(%new: f32, %kept: f32):
    %first = arith.cmpf ogt, %new, %kept : f32
    tm_tensor.yield %first : i1
  } -> tensor<2xf32>, tensor<2xi32>
  return %scanned#0, %found#0 : tensor<7xf32>, tensor<2xf32>
}

// -----

// A destination that an element-wise nest reads becomes an input.
// CHECK-LABEL: func.func @in_place
// CHECK: %[[NEW:.*]] = tensor.empty() : tensor<4x8xf32>
// CHECK: linalg.generic {{.*}} ins(%arg0 : tensor<4x8xf32>) outs(%[[NEW]] : tensor<4x8xf32>)
// CHECK-NEXT: ^bb0(%[[IN:.*]]: f32, %{{.*}}: f32):
// CHECK-NEXT: arith.mulf %[[IN]], %[[IN]]
#same = affine_map<(d0, d1) -> (d0, d1)>
func.func @in_place(%a: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %r = linalg.generic {indexing_maps = [#same], iterator_types = ["parallel", "parallel"]}
      outs(%a : tensor<4x8xf32>) {
  ^bb0(%x: f32):
    %s = arith.mulf %x, %x : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}

// -----

// The loops of a convolution are in the order of linalg's named operations.
// CHECK-DAG: #[[IMAGE:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d4, d2 + d5, d3 + d6)>
// CHECK-DAG: #[[WEIGHTS:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d1, d4, d5, d6)>
// CHECK-DAG: #[[RESULT:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3)>
// CHECK-LABEL: func.func @convolution
// CHECK: linalg.generic {indexing_maps = [#[[IMAGE]], #[[WEIGHTS]], #[[RESULT]]], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
func.func @convolution(%x: tensor<1x4x9x9xf32>, %w: tensor<6x4x3x3xf32>) -> tensor<1x6x7x7xf32> {
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
    window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1]}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x4x9x9xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x7x7xf32>
  return %0 : tensor<1x6x7x7xf32>
}

// -----

// An elementwise operation reads the source of a broadcast, and the scalar of a fill.
// CHECK-DAG: #[[ROWS:.*]] = affine_map<(d0, d1) -> (d0)>
// CHECK-DAG: #[[ALL:.*]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-LABEL: func.func @bias_and_relu
// CHECK: %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK: linalg.generic {indexing_maps = [#[[ALL]], #[[ROWS]], #[[ALL]]]{{.*}} ins(%arg0, %arg1 :
// CHECK: arith.addf
// CHECK: linalg.generic {indexing_maps = [#[[ALL]], #[[ALL]]]
// CHECK-NEXT: ^bb0(%[[IN:.*]]: f32, %{{.*}}: f32):
// CHECK-NEXT: arith.maximumf %[[IN]], %[[ZERO]] : f32
// CHECK-NOT: linalg.generic
func.func @bias_and_relu(%x: tensor<4x6xf32>, %b: tensor<4xf32>) -> tensor<4x6xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = stablehlo.broadcast_in_dim %b, dims = [0] : (tensor<4xf32>) -> tensor<4x6xf32>
  %2 = stablehlo.add %x, %1 : tensor<4x6xf32>
  %3 = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
  %4 = stablehlo.maximum %2, %3 : tensor<4x6xf32>
  return %4 : tensor<4x6xf32>
}

// -----

// A scatter of few updates into many elements is a loop over the updates.
// CHECK-LABEL: func.func @sparse_scatter
// CHECK: scf.execute_region
// CHECK: scf.for
// CHECK: tensor.insert
func.func @sparse_scatter(%t: tensor<4000x96xf32>, %i: tensor<200x1xi32>, %u: tensor<200x96xf32>) -> tensor<4000x96xf32> {
  %0 = "stablehlo.scatter"(%t, %i, %u) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}
      : (tensor<4000x96xf32>, tensor<200x1xi32>, tensor<200x96xf32>) -> tensor<4000x96xf32>
  return %0 : tensor<4000x96xf32>
}

// -----

// A reduction of StableHLO over no dimension is its operand.
// CHECK-LABEL: func.func @reduced_over_nothing
// CHECK-SAME: (%[[X:.*]]: tensor<2xf32>)
// CHECK-NEXT: return %[[X]]
func.func @reduced_over_nothing(%x: tensor<2xf32>) -> tensor<2xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = []
      : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
