// RUN: rammer-opt %s --rtask-externalize-constants | filecheck %s

// Dense constants become arguments that carry their values; splats and scalars stay in the code.
// CHECK: func.func @main(%[[X:.*]]: tensor<3xf32> {rtask.name = "x"},
// CHECK-SAME: %[[W:.*]]: tensor<3xf32> {rtask.constant = "__constant_0", rtask.value = dense<[1.000000e+00, 2.000000e+00, 3.000000e+00]> : tensor<3xf32>},
// CHECK-SAME: %[[I:.*]]: tensor<2xi64> {rtask.constant = "__constant_1", rtask.value = dense<[4, 5]> : tensor<2xi64>}) -> (tensor<3xf32> {rtask.name = "y"}, tensor<2xi64>)
// CHECK-DAG: %[[SPLAT:.*]] = arith.constant dense<5.000000e-01> : tensor<3xf32>
// CHECK-DAG: %[[TWO:.*]] = arith.constant 2.000000e+00 : f32
// CHECK: arith.mulf %[[X]], %[[W]]
// CHECK: arith.addf %{{.*}}, %[[SPLAT]]
// CHECK: return %{{.*}}, %[[I]]
func.func @main(%x: tensor<3xf32> {rtask.name = "x"})
    -> (tensor<3xf32> {rtask.name = "y"}, tensor<2xi64>) {
  %weights = arith.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %splat = arith.constant dense<0.5> : tensor<3xf32>
  %indices = arith.constant dense<[4, 5]> : tensor<2xi64>
  %two = arith.constant 2.0 : f32
  %0 = arith.mulf %x, %weights : tensor<3xf32>
  %1 = arith.addf %0, %splat : tensor<3xf32>
  %2 = tensor.splat %two : tensor<3xf32>
  %3 = arith.addf %1, %2 : tensor<3xf32>
  return %3, %indices : tensor<3xf32>, tensor<2xi64>
}
