// Gathers, slices, pads and reshapes.
func.func @gather_rows(%t: tensor<7x5xf32>, %ix: tensor<9x1xindex>) -> tensor<9x1x5xf32> {
  %r = tensor.gather %t[%ix] gather_dims([0]) : (tensor<7x5xf32>, tensor<9x1xindex>) -> tensor<9x1x5xf32>
  return %r : tensor<9x1x5xf32>
}
func.func @gather_elements(%t: tensor<4x3x5xf32>, %ix: tensor<2x6x2xi32>) -> tensor<2x6x3xf32> {
  %r = tensor.gather %t[%ix] gather_dims([0, 2]) unique : (tensor<4x3x5xf32>, tensor<2x6x2xi32>) -> tensor<2x6x3xf32>
  return %r : tensor<2x6x3xf32>
}
func.func @strided_insert(%a: tensor<4x10xf32>, %b: tensor<9x22xf32>) -> tensor<9x22xf32> {
  %r = tensor.insert_slice %a into %b[1, 1] [4, 10] [2, 2] : tensor<4x10xf32> into tensor<9x22xf32>
  return %r : tensor<9x22xf32>
}
func.func @plain_insert(%a: tensor<2x3xf32>, %b: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %r = tensor.insert_slice %a into %b[1, 2] [2, 3] [1, 1] : tensor<2x3xf32> into tensor<4x6xf32>
  return %r : tensor<4x6xf32>
}
func.func @dynamic_extract(%a: tensor<6x8xf32>, %i: index, %j: index) -> tensor<2x3xf32> {
  %r = tensor.extract_slice %a[%i, %j] [2, 3] [1, 2] : tensor<6x8xf32> to tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}
func.func @dynamic_insert(%a: tensor<3xf32>, %b: tensor<6x8xf32>, %i: index) -> tensor<6x8xf32> {
  %r = tensor.insert_slice %a into %b[%i, 2] [1, 3] [1, 1] : tensor<3xf32> into tensor<6x8xf32>
  return %r : tensor<6x8xf32>
}
func.func @strided_extract(%a: tensor<6x9xf32>) -> tensor<3x3xf32> {
  %r = tensor.extract_slice %a[0, 1] [3, 3] [2, 3] : tensor<6x9xf32> to tensor<3x3xf32>
  return %r : tensor<3x3xf32>
}
func.func @computed_padding(%a: tensor<3x4xf32>, %v: f32) -> tensor<6x5xf32> {
  %r = tensor.pad %a low[1, 0] high[2, 1] {
  ^bb0(%i: index, %j: index):
    tensor.yield %v : f32
  } : tensor<3x4xf32> to tensor<6x5xf32>
  return %r : tensor<6x5xf32>
}
func.func @reshape(%a: tensor<4x6xf32>) -> tensor<3x8xf32> {
  %s = arith.constant dense<[3, 8]> : tensor<2xindex>
  %r = tensor.reshape %a(%s) : (tensor<4x6xf32>, tensor<2xindex>) -> tensor<3x8xf32>
  return %r : tensor<3x8xf32>
}
func.func @concat(%a: tensor<2x3xf32>, %b: tensor<2x4xf32>) -> tensor<2x7xf32> {
  %r = tensor.concat dim(1) %a, %b : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<2x7xf32>
  return %r : tensor<2x7xf32>
}
func.func @bitcast(%a: tensor<5xf32>) -> tensor<5xi32> {
  %b = arith.bitcast %a : tensor<5xf32> to tensor<5xi32>
  return %b : tensor<5xi32>
}
func.func @empty_tensors(%a: tensor<0x4xf32>, %b: tensor<3x4xf32>) -> (tensor<0x4xf32>, tensor<3x4xf32>, tensor<4xf32>) {
  %e = math.exp %a : tensor<0x4xf32>
  %c = tensor.concat dim(0) %a, %b : (tensor<0x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %z = arith.constant dense<1.0> : tensor<4xf32>
  %s = linalg.reduce ins(%a : tensor<0x4xf32>) outs(%z : tensor<4xf32>) dimensions = [0]
    (%in: f32, %acc: f32) {
      %t = arith.addf %in, %acc : f32
      linalg.yield %t : f32
    }
  return %e, %c, %s : tensor<0x4xf32>, tensor<3x4xf32>, tensor<4xf32>
}
