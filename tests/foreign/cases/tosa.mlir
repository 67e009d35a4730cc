// TOSA, which MLIR's own passes lower.
func.func @elementwise(%a: tensor<4x5xf32>, %b: tensor<1x5xf32>) -> tensor<4x5xf32> {
  %s = tosa.add %a, %b : (tensor<4x5xf32>, tensor<1x5xf32>) -> tensor<4x5xf32>
  %t = tosa.sigmoid %s : (tensor<4x5xf32>) -> tensor<4x5xf32>
  %r = tosa.maximum %t, %a : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
  return %r : tensor<4x5xf32>
}
func.func @clamped(%a: tensor<10xf32>) -> tensor<10xf32> {
  %r = tosa.clamp %a {min_val = -0.5 : f32, max_val = 0.5 : f32} : (tensor<10xf32>) -> tensor<10xf32>
  return %r : tensor<10xf32>
}
func.func @reductions(%a: tensor<3x4xf32>) -> (tensor<3x1xf32>, tensor<1x4xf32>, tensor<3xi32>) {
  %s = tosa.reduce_sum %a {axis = 1 : i32} : (tensor<3x4xf32>) -> tensor<3x1xf32>
  %m = tosa.reduce_max %a {axis = 0 : i32} : (tensor<3x4xf32>) -> tensor<1x4xf32>
  %i = tosa.argmax %a {axis = 1 : i32} : (tensor<3x4xf32>) -> tensor<3xi32>
  return %s, %m, %i : tensor<3x1xf32>, tensor<1x4xf32>, tensor<3xi32>
}
func.func @shapes(%a: tensor<2x3x4xf32>) -> (tensor<4x2x3xf32>, tensor<6x4xf32>, tensor<2x3x8xf32>) {
  %t = tosa.transpose %a {perms = array<i32: 2, 0, 1>} : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
  %s = tosa.const_shape {values = dense<[6, 4]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %r = tosa.reshape %a, %s : (tensor<2x3x4xf32>, !tosa.shape<2>) -> tensor<6x4xf32>
  %c = tosa.concat %a, %a {axis = 2 : i32} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x8xf32>
  return %t, %r, %c : tensor<4x2x3xf32>, tensor<6x4xf32>, tensor<2x3x8xf32>
}
func.func @matmul(%a: tensor<1x4x8xf32>, %b: tensor<1x8x6xf32>) -> tensor<1x4x6xf32> {
  %z = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  %r = tosa.matmul %a, %b, %z, %z : (tensor<1x4x8xf32>, tensor<1x8x6xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x4x6xf32>
  return %r : tensor<1x4x6xf32>
}
func.func @gather(%a: tensor<1x7x3xf32>, %i: tensor<1x5xi32>) -> tensor<1x5x3xf32> {
  %r = tosa.gather %a, %i : (tensor<1x7x3xf32>, tensor<1x5xi32>) -> tensor<1x5x3xf32>
  return %r : tensor<1x5x3xf32>
}
func.func @convolution(%x: tensor<1x6x6x2xf32>, %w: tensor<3x3x3x2xf32>, %b: tensor<3xf32>) -> tensor<1x6x6x3xf32> {
  %z = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  %r = tosa.conv2d %x, %w, %b, %z, %z {acc_type = f32, pad = array<i64: 1, 1, 1, 1>, stride = array<i64: 1, 1>, dilation = array<i64: 1, 1>} : (tensor<1x6x6x2xf32>, tensor<3x3x3x2xf32>, tensor<3xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x6x6x3xf32>
  return %r : tensor<1x6x6x3xf32>
}
func.func @conditional(%c: tensor<i1>, %a: tensor<4xf32>) -> tensor<4xf32> {
  %r = "tosa.cond_if"(%c, %a) ({
  ^bb0(%x: tensor<4xf32>):
    %e = tosa.exp %x : (tensor<4xf32>) -> tensor<4xf32>
    tosa.yield %e : tensor<4xf32>
  }, {
  ^bb0(%x: tensor<4xf32>):
    tosa.yield %x : tensor<4xf32>
  }) : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
