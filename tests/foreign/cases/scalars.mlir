// Scalars as arguments, results, and between tensors.
func.func @scalar_arguments(%t: tensor<7xf32>, %s: f32, %n: i32) -> tensor<7xf32> {
  %e = tensor.empty() : tensor<7xf32>
  %f = arith.sitofp %n : i32 to f32
  %p = arith.mulf %s, %f : f32
  %r = linalg.fill ins(%p : f32) outs(%e : tensor<7xf32>) -> tensor<7xf32>
  %q = arith.addf %t, %r : tensor<7xf32>
  return %q : tensor<7xf32>
}
func.func @scalar_results(%t: tensor<3x4xf32>) -> (f32, index, i1) {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %a = tensor.extract %t[%c1, %c2] : tensor<3x4xf32>
  %b = tensor.extract %t[%c2, %c1] : tensor<3x4xf32>
  %m = arith.maximumf %a, %b : f32
  %c = arith.cmpf olt, %a, %b : f32
  return %m, %c2, %c : f32, index, i1
}
func.func @splat_and_from_elements(%a: f32, %b: f32) -> (tensor<2x3xf32>, tensor<2x2xf32>, tensor<f32>) {
  %s = tensor.splat %a : tensor<2x3xf32>
  %c = arith.addf %a, %b : f32
  %e = tensor.from_elements %a, %b, %c, %a : tensor<2x2xf32>
  %z = tensor.from_elements %c : tensor<f32>
  return %s, %e, %z : tensor<2x3xf32>, tensor<2x2xf32>, tensor<f32>
}
func.func @insert_element(%t: tensor<5xf32>, %s: f32, %i: index) -> tensor<5xf32> {
  %r = tensor.insert %s into %t[%i] : tensor<5xf32>
  return %r : tensor<5xf32>
}
func.func @captured_scalar(%t: tensor<4x5xf32>, %s: f32) -> tensor<4x5xf32> {
  %e = tensor.empty() : tensor<4x5xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%t : tensor<4x5xf32>) outs(%e : tensor<4x5xf32>) {
  ^bb0(%in: f32, %out: f32):
    %m = arith.mulf %in, %s : f32
    linalg.yield %m : f32
  } -> tensor<4x5xf32>
  return %r : tensor<4x5xf32>
}
func.func @generate(%s: index) -> tensor<3x4xindex> {
  %r = tensor.generate {
  ^bb0(%i: index, %j: index):
    %a = arith.muli %i, %s : index
    %b = arith.addi %a, %j : index
    tensor.yield %b : index
  } : tensor<3x4xindex>
  return %r : tensor<3x4xindex>
}
func.func @selected_by_scalar(%c: i1, %a: tensor<6xf32>, %b: tensor<6xf32>) -> tensor<6xf32> {
  %r = arith.select %c, %a, %b : tensor<6xf32>
  return %r : tensor<6xf32>
}
func.func @rank_zero(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
  %r = arith.divf %a, %b : tensor<f32>
  return %r : tensor<f32>
}
func.func @constant_results() -> (tensor<2xi32>, f32) {
  %c = arith.constant dense<[3, 4]> : tensor<2xi32>
  %s = arith.constant 2.5 : f32
  return %c, %s : tensor<2xi32>, f32
}
func.func @static_dim(%a: tensor<5x7xf32>) -> tensor<2xindex> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %d0 = tensor.dim %a, %c0 : tensor<5x7xf32>
  %d1 = tensor.dim %a, %c1 : tensor<5x7xf32>
  %r = tensor.from_elements %d0, %d1 : tensor<2xindex>
  return %r : tensor<2xindex>
}
