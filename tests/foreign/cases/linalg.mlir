// Named and aggregate operations.
func.func @softmax(%a: tensor<6x20xf32>) -> tensor<6x20xf32> {
  %e = tensor.empty() : tensor<6x20xf32>
  %r = linalg.softmax dimension(1) ins(%a : tensor<6x20xf32>) outs(%e : tensor<6x20xf32>) -> tensor<6x20xf32>
  return %r : tensor<6x20xf32>
}
func.func @pack_and_unpack(%a: tensor<30x64xf32>) -> (tensor<4x4x8x16xf32>, tensor<30x64xf32>) {
  %e = tensor.empty() : tensor<4x4x8x16xf32>
  %z = arith.constant 0.0 : f32
  %r = linalg.pack %a padding_value(%z : f32) inner_dims_pos = [0, 1] inner_tiles = [8, 16] into %e : tensor<30x64xf32> -> tensor<4x4x8x16xf32>
  %f = tensor.empty() : tensor<30x64xf32>
  %u = linalg.unpack %r inner_dims_pos = [0, 1] inner_tiles = [8, 16] into %f : tensor<4x4x8x16xf32> -> tensor<30x64xf32>
  return %r, %u : tensor<4x4x8x16xf32>, tensor<30x64xf32>
}
func.func @packed_transposed(%a: tensor<16x8xf32>) -> tensor<2x4x4x4xf32> {
  %e = tensor.empty() : tensor<2x4x4x4xf32>
  %r = linalg.pack %a outer_dims_perm = [1, 0] inner_dims_pos = [1, 0] inner_tiles = [4, 4] into %e : tensor<16x8xf32> -> tensor<2x4x4x4xf32>
  return %r : tensor<2x4x4x4xf32>
}
func.func @quantized_matmul(%a: tensor<8x16xi8>, %b: tensor<16x24xi8>) -> tensor<8x24xi32> {
  %z = arith.constant 0 : i32
  %zp = arith.constant 3 : i32
  %e = tensor.empty() : tensor<8x24xi32>
  %f = linalg.fill ins(%z : i32) outs(%e : tensor<8x24xi32>) -> tensor<8x24xi32>
  %r = linalg.quantized_matmul ins(%a, %b, %zp, %zp : tensor<8x16xi8>, tensor<16x24xi8>, i32, i32) outs(%f : tensor<8x24xi32>) -> tensor<8x24xi32>
  return %r : tensor<8x24xi32>
}
func.func @accumulating_matmul(%a: tensor<8x16xf32>, %b: tensor<16x24xf32>, %c: tensor<8x24xf32>) -> tensor<8x24xf32> {
  %r = linalg.matmul ins(%a, %b : tensor<8x16xf32>, tensor<16x24xf32>) outs(%c : tensor<8x24xf32>) -> tensor<8x24xf32>
  return %r : tensor<8x24xf32>
}
func.func @transpose_broadcast_map(%a: tensor<3x4xf32>, %b: tensor<4xf32>) -> tensor<4x3xf32> {
  %e = tensor.empty() : tensor<4x3xf32>
  %t = linalg.transpose ins(%a : tensor<3x4xf32>) outs(%e : tensor<4x3xf32>) permutation = [1, 0]
  %w = linalg.broadcast ins(%b : tensor<4xf32>) outs(%e : tensor<4x3xf32>) dimensions = [1]
  %r = linalg.map ins(%t, %w : tensor<4x3xf32>, tensor<4x3xf32>) outs(%e : tensor<4x3xf32>)
    (%x: f32, %y: f32, %init: f32) {
      %s = arith.subf %x, %y : f32
      linalg.yield %s : f32
    }
  return %r : tensor<4x3xf32>
}
func.func @reduce_rows(%a: tensor<5x7xf32>, %i: tensor<5xf32>) -> tensor<5xf32> {
  %r = linalg.reduce ins(%a : tensor<5x7xf32>) outs(%i : tensor<5xf32>) dimensions = [1]
    (%in: f32, %acc: f32) {
      %t = arith.maximumf %in, %acc : f32
      linalg.yield %t : f32
    }
  return %r : tensor<5xf32>
}
func.func @two_results(%a: tensor<4x6xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %z = arith.constant dense<0.0> : tensor<4xf32>
  %r:2 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%a : tensor<4x6xf32>) outs(%z, %z : tensor<4xf32>, tensor<4xf32>) {
  ^bb0(%in: f32, %x: f32, %y: f32):
    %s = arith.addf %x, %in : f32
    %m = arith.mulf %in, %in : f32
    %q = arith.addf %y, %m : f32
    linalg.yield %s, %q : f32, f32
  } -> (tensor<4xf32>, tensor<4xf32>)
  return %r#0, %r#1 : tensor<4xf32>, tensor<4xf32>
}
func.func @convolution(%x: tensor<1x8x8x3xf32>, %w: tensor<3x3x3x4xf32>) -> tensor<1x6x6x4xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x6x6x4xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x6x6x4xf32>) -> tensor<1x6x6x4xf32>
  %r = linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>} ins(%x, %w : tensor<1x8x8x3xf32>, tensor<3x3x3x4xf32>) outs(%f : tensor<1x6x6x4xf32>) -> tensor<1x6x6x4xf32>
  return %r : tensor<1x6x6x4xf32>
}
func.func @max_pool(%x: tensor<1x6x6x2xf32>) -> tensor<1x3x3x2xf32> {
  %z = arith.constant -3.4e38 : f32
  %k = tensor.empty() : tensor<2x2xf32>
  %e = tensor.empty() : tensor<1x3x3x2xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x3x3x2xf32>) -> tensor<1x3x3x2xf32>
  %r = linalg.pooling_nhwc_max {dilations = dense<1> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>} ins(%x, %k : tensor<1x6x6x2xf32>, tensor<2x2xf32>) outs(%f : tensor<1x3x3x2xf32>) -> tensor<1x3x3x2xf32>
  return %r : tensor<1x3x3x2xf32>
}
func.func @bf16_matmul(%a: tensor<4x8xbf16>, %b: tensor<8x4xbf16>) -> tensor<4x4xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x4xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  %r = linalg.matmul ins(%a, %b : tensor<4x8xbf16>, tensor<8x4xbf16>) outs(%f : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
func.func @integers(%a: tensor<6xi16>, %b: tensor<6xi64>) -> (tensor<6xi64>, tensor<6xi1>) {
  %w = arith.extsi %a : tensor<6xi16> to tensor<6xi64>
  %s = arith.muli %w, %b : tensor<6xi64>
  %m = arith.maxsi %s, %w : tensor<6xi64>
  %c = arith.cmpi sgt, %m, %b : tensor<6xi64>
  return %m, %c : tensor<6xi64>, tensor<6xi1>
}
func.func @resource() -> tensor<4xf32> {
  %c = arith.constant dense_resource<blob> : tensor<4xf32>
  %r = math.sqrt %c : tensor<4xf32>
  return %r : tensor<4xf32>
}
func.func @same_result_twice(%a: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
  %r = math.exp %a : tensor<3xf32>
  return %r, %r, %a : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}
{-# dialect_resources: { builtin: { blob: "0x040000000000803F000000400000404000008040" } } #-}

func.func @computed_sequence_reduced() -> tensor<16xf32> {
  %e = tensor.empty() : tensor<16x131072xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<16x131072xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = arith.addi %i, %j : index
    %c = arith.index_cast %k : index to i32
    %f = arith.sitofp %c : i32 to f32
    linalg.yield %f : f32
  } -> tensor<16x131072xf32>
  %z = arith.constant dense<0.0> : tensor<16xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%s : tensor<16x131072xf32>) outs(%z : tensor<16xf32>) {
  ^bb0(%x: f32, %y: f32):
    %1 = arith.maximumf %x, %y : f32
    linalg.yield %1 : f32
  } -> tensor<16xf32>
  return %r : tensor<16xf32>
}
