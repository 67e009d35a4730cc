// RUN: rammer-opt %s --split-input-file --linalg-generalize-named-ops --rtask-tile --canonicalize --cse | filecheck %s
// RUN: rammer-opt %s --split-input-file --linalg-generalize-named-ops --rtask-tile=candidates=1 | filecheck %s --check-prefix=ONE
// RUN: rammer-opt %s --split-input-file --linalg-generalize-named-ops --rtask-tile='device=h100 num-veus=132' | filecheck %s --check-prefix=DEVICE

// A coarse and a fine rKernel. The fine one cuts 200 columns into tiles of 32: the last has 8, and
// its slices have dynamic sizes. (The dialect's verifier checks that the tiles cover the output.)
// CHECK-DAG: #[[COARSE:.*]] = affine_map<(d0) -> (d0 * 75, 0)>
// CHECK-DAG: #[[FINE:.*]] = affine_map<(d0) -> ((d0 floordiv 7) * 50, (d0 mod 7) * 32)>
// CHECK: "rtask.kernel"()
// CHECK-SAME: function = @matmul_t0, num_rtasks = 4 : i64, operations = 7680000 : i64
// CHECK-SAME: writes = [{argument = 2 : i64, offsets = #[[COARSE]], sizes = array<i64: 75, 200>}]
// CHECK: func.func private @matmul_t0(%[[ID:.*]]: index, %{{.*}}: tensor<300x256xf32>, %{{.*}}: tensor<256x200xf32>, %[[OUT:.*]]: tensor<300x200xf32>) -> tensor<300x200xf32>
// CHECK: %[[ROW:.*]] = affine.apply #{{.*}}()[%[[ID]]]
// CHECK: tensor.extract_slice %[[OUT]][%[[ROW]], 0] [75, 200] [1, 1]
// CHECK: tensor.insert_slice %{{.*}} into %[[OUT]][%[[ROW]], 0] [75, 200] [1, 1]
// CHECK: "rtask.kernel"()
// CHECK-SAME: function = @matmul_t1, num_rtasks = 42 : i64
// CHECK-SAME: writes = [{argument = 2 : i64, offsets = #[[FINE]], sizes = array<i64: 50, 32>}]
// CHECK: func.func private @matmul_t1
// CHECK: %[[WIDTH:.*]] = affine.min
// CHECK: tensor.insert_slice %{{.*}} into %{{.*}}[%{{.*}}, %{{.*}}] [50, %[[WIDTH]]] [1, 1]
// CHECK: func.func @main
// CHECK: "rtask.operator"(%{{.*}}, %{{.*}}) {kernels = [@matmul_t0, @matmul_t1]}
// On a GPU of 132 multiprocessors: one rKernel that occupies them least, and the fastest one.
// DEVICE: function = @matmul_t0, num_rtasks = 42 : i64
// DEVICE: function = @matmul_t1, num_rtasks = 84 : i64
// ONE: func.func @main
// ONE: "rtask.operator"(%{{.*}}, %{{.*}}) {kernels = [@matmul_t0]}
func.func private @matmul(%x: tensor<300x256xf32>, %w: tensor<256x200xf32>) -> tensor<300x200xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<300x200xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<300x200xf32>) -> tensor<300x200xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<300x256xf32>, tensor<256x200xf32>)
      outs(%init : tensor<300x200xf32>) -> tensor<300x200xf32>
  return %0 : tensor<300x200xf32>
}
func.func @main(%x: tensor<300x256xf32>, %w: tensor<256x200xf32>) -> tensor<300x200xf32> {
  %r = "rtask.operator"(%x, %w) {kernels = [@matmul]}
      : (tensor<300x256xf32>, tensor<256x200xf32>) -> tensor<300x200xf32>
  return %r : tensor<300x200xf32>
}

// -----

// What has no loops that can be cut is one rTask.
// CHECK: "rtask.kernel"()
// CHECK-SAME: function = @table_t0, num_rtasks = 1 : i64
// CHECK-SAME: writes = [{argument = 0 : i64, offsets = #{{.*}}, sizes = array<i64: 4>}]
// CHECK: func.func private @table_t0(%{{.*}}: index, %[[OUT:.*]]: tensor<4xi64>)
// CHECK: materialize_in_destination %{{.*}} in %[[OUT]]
func.func private @table() -> tensor<4xi64> {
  %0 = arith.constant dense<[3, 1, 2, 0]> : tensor<4xi64>
  return %0 : tensor<4xi64>
}
func.func @main() -> tensor<4xi64> {
  %r = "rtask.operator"() {kernels = [@table]} : () -> tensor<4xi64>
  return %r : tensor<4xi64>
}

// -----

// A window over an image: channels are cut, each rTask reads its channels of the whole image.
// CHECK: #[[CHANNELS:.*]] = affine_map<(d0) -> (0, d0 * 8, 0, 0)>
// CHECK: "rtask.kernel"()
// CHECK: "rtask.kernel"()
// CHECK-SAME: function = @pool_t1, num_rtasks = 8 : i64
// CHECK-SAME: reads = [{argument = 0 : i64, offsets = #[[CHANNELS]], sizes = array<i64: 1, 8, 57, 57>}]
// CHECK-SAME: writes = [{argument = 1 : i64, offsets = #[[CHANNELS]], sizes = array<i64: 1, 8, 28, 28>}]
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
  %r = "rtask.operator"(%x) {kernels = [@pool]}
      : (tensor<1x64x57x57xf32>) -> tensor<1x64x28x28xf32>
  return %r : tensor<1x64x28x28xf32>
}
