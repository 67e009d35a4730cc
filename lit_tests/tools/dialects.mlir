// Programs in TOSA and StableHLO, and dimensions that the run decides.
// RUN: rm -rf %t && mkdir -p %t
// RUN: %python %S/Inputs/arrays.py %t/in.npz x=1,-2,3,-4
// RUN: rammer-run %s --entry tosa --inputs %t/in.npz --outputs %t/tosa.npz
// RUN: %python %S/Inputs/arrays.py %t/tosa.npz | filecheck %s
// RUN: rammer-run %s --entry stablehlo --inputs %t/in.npz --outputs %t/stablehlo.npz
// RUN: %python %S/Inputs/arrays.py %t/stablehlo.npz | filecheck %s
// RUN: rammer-run %s --entry open --inputs %t/in.npz --outputs %t/open.npz
// RUN: %python %S/Inputs/arrays.py %t/open.npz | filecheck %s
// RUN: rammer-compile %s --entry open --dim n=4,8 -o %t/open.rammer
// RUN: rammer-run %t/open.rammer --info | filecheck %s --check-prefix=INFO
// RUN: rammer-run %t/open.rammer --dim n=8 | filecheck %s --check-prefix=SIZE
// RUN: rammer-run %s --entry open --shape x=3 | filecheck %s --check-prefix=SHAPE
// RUN: not rammer-run %s --entry open 2>&1 | filecheck %s --check-prefix=OPEN
// RUN: not rammer-compile %s --entry unknown -o %t/unknown.rammer 2>&1 | filecheck %s --check-prefix=REFUSED

// CHECK: y float32 [1.0, 0.0, 3.0, 0.0]
// INFO: specialization   n=4
// INFO-NEXT: specialization   n=8
// SIZE: output 'y'  8 float32
// SHAPE: output 'y'  3 float32
// OPEN: error: the model leaves 'n' open: give --dim n=N, or arrays with --inputs
// REFUSED: error: {{.*}}dialects.mlir:44:8: 'stablehlo.custom_call'
func.func @tosa(%x: tensor<4xf32> {rtask.name = "x"}) -> (tensor<4xf32> {rtask.name = "y"}) {
  %0 = tosa.clamp %x {min_val = 0.0 : f32, max_val = 3.4028235e+38 : f32} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @stablehlo(%x: tensor<4xf32> {rtask.name = "x"}) -> (tensor<4xf32> {rtask.name = "y"}) {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %0 = stablehlo.maximum %x, %zero : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @open(%x: tensor<?xf32> {rtask.name = "x", rtask.dimensions = ["n"]}) -> (tensor<?xf32> {rtask.name = "y"}) {
  %zero = arith.constant 0.0 : f32
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<?xf32>) outs(%x : tensor<?xf32>) {
  ^bb0(%a: f32, %b: f32):
    %1 = arith.maximumf %a, %zero : f32
    linalg.yield %1 : f32
  } -> tensor<?xf32>
  return %0 : tensor<?xf32>
}
func.func @unknown(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @other(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
