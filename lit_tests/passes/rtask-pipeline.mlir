// RUN: rammer-opt %s --split-input-file --rtask-pipeline=chunks=2 | filecheck %s
// RUN: rammer-opt %s --split-input-file --rtask-pipeline="chunks=2 memory=1000000" | filecheck %s --check-prefix=FITS
// RUN: not rammer-opt %s --split-input-file --rtask-pipeline=chunks=1 2>&1 | filecheck %s --check-prefix=ONE

// ONE: rtask-pipeline: chunks: expected at least 2, found 1
// FITS-NOT: tensor.concat

// The hidden values of two products are computed for half of the rows at a time; weights are whole.
// CHECK: func.func private @[[UP:up_part_0]](%{{.*}}: tensor<4x16xf32>, %{{.*}}: tensor<16x64xf32>) -> tensor<4x64xf32>
// CHECK: func.func private @[[DOWN:down_part_0]](%{{.*}}: tensor<4x64xf32>, %{{.*}}: tensor<64x16xf32>) -> tensor<4x16xf32>
// CHECK-NOT: func.func private
// CHECK: func.func @main(%[[X:.*]]: tensor<8x16xf32>, %[[W:.*]]: tensor<16x64xf32>, %[[V:.*]]: tensor<64x16xf32>)
// CHECK-DAG: %[[XA:.*]] = tensor.extract_slice %[[X]][0, 0] [4, 16] [1, 1]
// CHECK-DAG: %[[HA:.*]] = rtask.operator @[[UP]](%[[XA]], %[[W]])
// CHECK: %[[YA:.*]] = rtask.operator @[[DOWN]](%[[HA]], %[[V]])
// CHECK: %[[XB:.*]] = tensor.extract_slice %[[X]][4, 0] [4, 16] [1, 1]
// CHECK: %[[HB:.*]] = rtask.operator @[[UP]](%[[XB]], %[[W]])
// CHECK: %[[YB:.*]] = rtask.operator @[[DOWN]](%[[HB]], %[[V]])
// CHECK: %[[Y:.*]] = tensor.concat dim(0) %[[YA]], %[[YB]]
// CHECK: return %[[Y]]
#a = affine_map<(i, j, k) -> (i, k)>
#b = affine_map<(i, j, k) -> (k, j)>
#c = affine_map<(i, j, k) -> (i, j)>
func.func private @up(%x: tensor<8x16xf32>, %w: tensor<16x64xf32>) -> tensor<8x64xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x64xf32>
  %i = linalg.generic {indexing_maps = [affine_map<(i, j) -> ()>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%zero : f32) outs(%e : tensor<8x64xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<8x64xf32>
  %r = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<8x16xf32>, tensor<16x64xf32>) outs(%i : tensor<8x64xf32>) {
  ^bb0(%p: f32, %q: f32, %s: f32):
    %m = arith.mulf %p, %q : f32
    %t = arith.addf %s, %m : f32
    linalg.yield %t : f32
  } -> tensor<8x64xf32>
  return %r : tensor<8x64xf32>
}
func.func private @down(%x: tensor<8x64xf32>, %w: tensor<64x16xf32>) -> tensor<8x16xf32> {
  %e = arith.constant dense<0.0> : tensor<8x16xf32>
  %r = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<8x64xf32>, tensor<64x16xf32>) outs(%e : tensor<8x16xf32>) {
  ^bb0(%p: f32, %q: f32, %s: f32):
    %m = arith.mulf %p, %q : f32
    %t = arith.addf %s, %m : f32
    linalg.yield %t : f32
  } -> tensor<8x16xf32>
  return %r : tensor<8x16xf32>
}
func.func @main(%x: tensor<8x16xf32>, %w: tensor<16x64xf32>, %v: tensor<64x16xf32>) -> tensor<8x16xf32> {
  %h = rtask.operator @up(%x, %w) : (tensor<8x16xf32>, tensor<16x64xf32>) -> tensor<8x64xf32>
  %y = rtask.operator @down(%h, %v) : (tensor<8x64xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
  return %y : tensor<8x16xf32>
}

// -----

// A window of three rows: parts of what is before it overlap by two rows, and the border is only at the ends.
// CHECK: func.func @main(%[[X:.*]]: tensor<8x256xf32>)
// CHECK: tensor.extract_slice %[[X]][0, 0] [5, 256] [1, 1]
// CHECK: %[[A:.*]] = rtask.operator @double_part_0(
// CHECK: %[[PA:.*]] = tensor.pad %[[A]] low[1, 0] high[0, 0]
// CHECK: tensor<5x256xf32> to tensor<6x256xf32>
// CHECK: rtask.operator @sum_part_0(%[[PA]])
// CHECK: tensor.extract_slice %[[X]][3, 0] [5, 256] [1, 1]
// CHECK: %[[B:.*]] = rtask.operator @double_part_0(
// CHECK: %[[PB:.*]] = tensor.pad %[[B]] low[0, 0] high[1, 0]
// CHECK: rtask.operator @sum_part_0(%[[PB]])
// CHECK: tensor.concat dim(0)
func.func private @double(%x: tensor<8x256xf32>) -> tensor<8x256xf32> {
  %e = tensor.empty() : tensor<8x256xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x256xf32>) outs(%e : tensor<8x256xf32>) {
  ^bb0(%in: f32, %out: f32):
    %t = arith.addf %in, %in : f32
    linalg.yield %t : f32
  } -> tensor<8x256xf32>
  return %r : tensor<8x256xf32>
}
func.func private @sum(%x: tensor<10x256xf32>) -> tensor<8xf32> {
  %e = arith.constant dense<0.0> : tensor<8xf32>
  %w = tensor.empty() : tensor<3xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i + j, k)>, affine_map<(i, j, k) -> (j)>, affine_map<(i, j, k) -> (i)>],
      iterator_types = ["parallel", "reduction", "reduction"]}
      ins(%x, %w : tensor<10x256xf32>, tensor<3xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%in: f32, %unused: f32, %out: f32):
    %t = arith.addf %in, %out : f32
    linalg.yield %t : f32
  } -> tensor<8xf32>
  return %r : tensor<8xf32>
}
func.func @main(%x: tensor<8x256xf32>) -> tensor<8xf32> {
  %zero = arith.constant 0.0 : f32
  %d = rtask.operator @double(%x) : (tensor<8x256xf32>) -> tensor<8x256xf32>
  %p = tensor.pad %d low[1, 0] high[1, 0] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f32
  } : tensor<8x256xf32> to tensor<10x256xf32>
  %y = rtask.operator @sum(%p) : (tensor<10x256xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

// What reads the number of a row is not cut: a part would count from 0 again.
// CHECK: func.func @main
// CHECK-COUNT-2: rtask.operator
// CHECK-NOT: rtask.operator
func.func private @rows(%x: tensor<8xf32>) -> tensor<8xf32> {
  %e = tensor.empty() : tensor<8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %row = linalg.index 0 : index
    %n = arith.index_cast %row : index to i32
    %f = arith.sitofp %n : i32 to f32
    %t = arith.addf %in, %f : f32
    linalg.yield %t : f32
  } -> tensor<8xf32>
  return %r : tensor<8xf32>
}
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %d = rtask.operator @rows(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %y = rtask.operator @rows(%d) : (tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}
