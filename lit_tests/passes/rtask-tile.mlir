// RUN: rammer-opt %s --split-input-file --linalg-generalize-named-ops --rtask-tile --canonicalize --cse | filecheck %s
// RUN: rammer-opt %s --split-input-file --linalg-generalize-named-ops --rtask-tile=candidates=1 | filecheck %s --check-prefix=ONE
// RUN: rammer-opt %s --split-input-file --linalg-generalize-named-ops --rtask-tile='device=h100 num-veus=132' | filecheck %s --check-prefix=DEVICE
// RUN: rammer-opt %s --split-input-file --linalg-generalize-named-ops --rtask-tile=design=search | filecheck %s --check-prefix=SEARCH

// A coarse and a fine rKernel. The fine one cuts 200 columns into tiles of 32: the last has 8, and
// its slices have dynamic sizes. (The dialect's verifier checks that the tiles cover the output.)
// CHECK: rtask.kernel @matmul_t0 rtasks(4) operations(7680000)
// CHECK: writes 2[d0 * 75 +: 75, 0 +: 200]
// CHECK-NEXT: }
// CHECK: func.func private @matmul_t0(%[[ID:.*]]: index, %{{.*}}: tensor<300x256xf32>, %{{.*}}: tensor<256x200xf32>, %[[OUT:.*]]: tensor<300x200xf32>) -> tensor<300x200xf32>
// CHECK: %[[ROW:.*]] = affine.apply #{{.*}}()[%[[ID]]]
// CHECK: tensor.extract_slice %[[OUT]][%[[ROW]], 0] [75, 200] [1, 1]
// CHECK: tensor.insert_slice %{{.*}} into %[[OUT]][%[[ROW]], 0] [75, 200] [1, 1]
// CHECK: rtask.kernel @matmul_t1 rtasks(42)
// CHECK: writes 2[(d0 floordiv 7) * 50 +: 50, (d0 mod 7) * 32 +: 32]
// CHECK-NEXT: }
// CHECK: func.func private @matmul_t1
// CHECK: %[[WIDTH:.*]] = affine.min
// CHECK: tensor.insert_slice %{{.*}} into %{{.*}}[%{{.*}}, %{{.*}}] [50, %[[WIDTH]]] [1, 1]
// CHECK: func.func @main
// CHECK: rtask.operator [@matmul_t0, @matmul_t1](%{{.*}}, %{{.*}})
// On a GPU of 132 multiprocessors: one rKernel that occupies them least, and the fastest one.
// DEVICE: rtask.kernel @matmul_t0 rtasks(42)
// DEVICE: rtask.kernel @matmul_t1 rtasks(84)
// ONE: func.func @main
// ONE: rtask.operator @matmul_t0(%{{.*}}, %{{.*}})
func.func private @matmul(%x: tensor<300x256xf32>, %w: tensor<256x200xf32>) -> tensor<300x200xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<300x200xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<300x200xf32>) -> tensor<300x200xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<300x256xf32>, tensor<256x200xf32>)
      outs(%init : tensor<300x200xf32>) -> tensor<300x200xf32>
  return %0 : tensor<300x200xf32>
}
func.func @main(%x: tensor<300x256xf32>, %w: tensor<256x200xf32>) -> tensor<300x200xf32> {
  %r = rtask.operator @matmul(%x, %w) : (tensor<300x256xf32>, tensor<256x200xf32>) -> tensor<300x200xf32>
  return %r : tensor<300x200xf32>
}

// -----

// What has no loops that can be cut is one rTask.
// CHECK: rtask.kernel @table_t0 rtasks(1)
// CHECK-NEXT: writes 0[0 +: 4]
// CHECK: func.func private @table_t0(%{{.*}}: index, %[[OUT:.*]]: tensor<4xi64>)
// CHECK: materialize_in_destination %{{.*}} in %[[OUT]]
func.func private @table() -> tensor<4xi64> {
  %0 = arith.constant dense<[3, 1, 2, 0]> : tensor<4xi64>
  return %0 : tensor<4xi64>
}
func.func @main() -> tensor<4xi64> {
  %r = rtask.operator @table() : () -> tensor<4xi64>
  return %r : tensor<4xi64>
}

// -----

// A window over an image: channels are cut, each rTask reads its channels of the whole image.
// CHECK: rtask.kernel @pool_t0
// CHECK: rtask.kernel @pool_t1 rtasks(8)
// CHECK-NEXT: reads 0[0 +: 1, d0 * 8 +: 8, 0 +: 57, 0 +: 57]
// CHECK: writes 1[0 +: 1, d0 * 8 +: 8, 0 +: 28, 0 +: 28]
#taps = affine_map<(n, c, y, x, r, s) -> (n, c, y * 2 + r, x * 2 + s)>
#window = affine_map<(n, c, y, x, r, s) -> (r, s)>
#image = affine_map<(n, c, y, x, r, s) -> (n, c, y, x)>
func.func private @pool(%x: tensor<1x64x57x57xf32>) -> tensor<1x64x28x28xf32> {
  %low = arith.constant 0xFF800000 : f32
  %empty = tensor.empty() : tensor<1x64x28x28xf32>
  %init = linalg.fill ins(%low : f32)
      outs(%empty : tensor<1x64x28x28xf32>) -> tensor<1x64x28x28xf32>
  %size = tensor.empty() : tensor<3x3xf32>
  %0 = linalg.generic {
      indexing_maps = [#taps, #window, #image],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%x, %size : tensor<1x64x57x57xf32>, tensor<3x3xf32>)
      outs(%init : tensor<1x64x28x28xf32>) {
  ^bb0(%in: f32, %w: f32, %acc: f32):
    %m = arith.maximumf %in, %acc : f32
    linalg.yield %m : f32
  } -> tensor<1x64x28x28xf32>
  return %0 : tensor<1x64x28x28xf32>
}
func.func @main(%x: tensor<1x64x57x57xf32>) -> tensor<1x64x28x28xf32> {
  %r = rtask.operator @pool(%x) : (tensor<1x64x57x57xf32>) -> tensor<1x64x28x28xf32>
  return %r : tensor<1x64x28x28xf32>
}

// -----

// Cut after cut, 350 rows come in 14 parts before 96 columns do in parts of 32, and the last tile of
// 64 columns has 32. The search finds rTasks of as many operations that move fewer bytes.
// CHECK: rtask.kernel @columns_t1 rtasks(28) operations(819200)
// CHECK: writes 2[(d0 floordiv 2) * 25 +: 25, (d0 mod 2) * 64 +: 64]
// SEARCH: rtask.kernel @columns_t1 rtasks(21) operations(819200)
// SEARCH: writes 2[(d0 floordiv 3) * 50 +: 50, (d0 mod 3) * 32 +: 32]
func.func private @columns(%x: tensor<350x256xf32>, %w: tensor<256x96xf32>) -> tensor<350x96xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<350x96xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<350x96xf32>) -> tensor<350x96xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<350x256xf32>, tensor<256x96xf32>)
      outs(%init : tensor<350x96xf32>) -> tensor<350x96xf32>
  return %0 : tensor<350x96xf32>
}
func.func @main(%x: tensor<350x256xf32>, %w: tensor<256x96xf32>) -> tensor<350x96xf32> {
  %r = rtask.operator @columns(%x, %w) : (tensor<350x256xf32>, tensor<256x96xf32>) -> tensor<350x96xf32>
  return %r : tensor<350x96xf32>
}

// -----

// The rows of a softmax are read twice: an rTask has so few that they stay in a core's L1, whatever
// its work is.
// CHECK: rtask.kernel @softmax_t0 rtasks(128)
// CHECK: writes 1[d0 +: 1, 0 +: 1024]
// CHECK-NOT: rtask.kernel @softmax_t1
func.func private @softmax(%x: tensor<128x1024xf32>) -> tensor<128x1024xf32> {
  %least = arith.constant 0xFF800000 : f32
  %rows = tensor.empty() : tensor<128xf32>
  %init = linalg.fill ins(%least : f32) outs(%rows : tensor<128xf32>) -> tensor<128xf32>
  %top = linalg.reduce { arith.maximumf } ins(%x : tensor<128x1024xf32>)
      outs(%init : tensor<128xf32>) dimensions = [1]
  %empty = tensor.empty() : tensor<128x1024xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>,
                                        affine_map<(i, j) -> (i, j)>],
                       iterator_types = ["parallel", "parallel"]}
      ins(%x, %top : tensor<128x1024xf32>, tensor<128xf32>) outs(%empty : tensor<128x1024xf32>) {
  ^bb0(%in: f32, %m: f32, %out: f32):
    %d = arith.subf %in, %m : f32
    linalg.yield %d : f32
  } -> tensor<128x1024xf32>
  return %0 : tensor<128x1024xf32>
}
func.func @main(%x: tensor<128x1024xf32>) -> tensor<128x1024xf32> {
  %r = rtask.operator @softmax(%x) : (tensor<128x1024xf32>) -> tensor<128x1024xf32>
  return %r : tensor<128x1024xf32>
}
