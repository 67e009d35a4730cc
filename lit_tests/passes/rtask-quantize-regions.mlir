// Contractions of regions read 8 or 16 bits; regions that become too noisy stay f32.
// RUN: %python %S/Inputs/samples.py %t.npz
// RUN: rammer-opt %s --pass-pipeline='builtin.module(linalg-generalize-named-ops,canonicalize,rtask-externalize-constants,rtask-match-composites{table=host},rtask-annotate-regions{codegens=host},rtask-outline-regions)' -o %t.mlir
// RUN: rammer-opt %t.mlir --rtask-quantize-regions='codegens=host calibration=%t.npz' --canonicalize 2>%t.log | filecheck %s
// RUN: filecheck %s --input-file=%t.log --check-prefix=REPORT
// RUN: rammer-opt %t.mlir --rtask-quantize-regions='codegens=host calibration=%t.npz bound=70 bits=16' 2>&1 | filecheck %s --check-prefix=HALVES
// RUN: rammer-opt %t.mlir --rtask-quantize-regions='codegens=host calibration=%t.npz dynamic=true' 2>&1 | filecheck %s --check-prefix=DYNAMIC
// RUN: not rammer-opt %t.mlir --rtask-quantize-regions='codegens=host' 2>&1 | filecheck %s --check-prefix=NONE
// RUN: not rammer-opt %t.mlir --rtask-quantize-regions='calibration=%t.npz' 2>&1 | filecheck %s --check-prefix=NOBODY
// RUN: sed 's/@main(/@main(%%c: index, /' %t.mlir | not rammer-opt - --rtask-quantize-regions='codegens=host calibration=%t.npz' 2>&1 | filecheck %s --check-prefix=TYPES

// 8 bits with a zero point, sums in i32, and the weights' sums times the zero
// point taken from these; the boundary stays f32, and so does the bias.
// Layers with other weights, scales and zero points share the function: all of these are operands.
// CHECK: func.func private @host_0_8bit(%{{.*}}: tensor<4x8xf32>, %{{.*}}: tensor<2xf32>, %{{.*}}: tensor<f32>, %{{.*}}: tensor<i8>, %{{.*}}: tensor<8x2xi8>, %{{.*}}: tensor<2xf32>, %{{.*}}: tensor<2xi32>) -> tensor<4x2xf32> attributes {rtask.codegen = "host"}
// CHECK: arith.sitofp %{{.*}} : i8 to f32
// CHECK: arith.divf
// CHECK-NEXT: math.roundeven
// CHECK-NEXT: arith.addf
// CHECK: arith.fptosi %{{.*}} : f32 to i8
// CHECK: arith.muli
// CHECK-NEXT: arith.addi
// CHECK: arith.subi
// CHECK-NEXT: arith.sitofp
// CHECK-NEXT: arith.mulf
// CHECK: func.func @main(%{{.*}}: tensor<4x8xf32> {rtask.name = "x"}
// CHECK-SAME: tensor<f32> {rtask.constant = "quantized.0", rtask.value = dense<
// CHECK-SAME: tensor<i8> {rtask.constant = "quantized.1", rtask.value = dense<
// CHECK-SAME: tensor<8x2xi8> {rtask.constant = "quantized.2", rtask.value = dense<
// CHECK-SAME: tensor<2xf32> {rtask.constant = "quantized.3", rtask.value = dense<
// CHECK-SAME: tensor<2xi32> {rtask.constant = "quantized.4", rtask.value = dense<
// CHECK-SAME: tensor<f32> {rtask.constant = "quantized.5", rtask.value = dense<
// CHECK-NOT: call @host_0(
// CHECK: call @host_0_8bit(
// CHECK: call @host_0_8bit(

// REPORT: region 'host_0'{{.*}}: {{[34][0-9]\.[0-9]}} dB, 8 bits

// HALVES: region 'host_0'{{.*}}: {{7[0-9]\.[0-9]}} dB, 16 bits
// HALVES: func.func private @host_0_16bit(%{{.*}}: tensor<8x2xf16>)
// HALVES: arith.truncf %{{.*}} : f32 to f16
// HALVES: arith.extf %{{.*}} : f16 to f32

// DYNAMIC: dB, 8 bits
// DYNAMIC: iterator_types = ["reduction", "reduction"]
// DYNAMIC: arith.minimumf
// DYNAMIC: iterator_types = ["reduction", "reduction"]
// DYNAMIC: arith.maximumf

// NONE: 'rtask-quantize-regions': expected calibration=..., found none
// NOBODY: 'rtask-quantize-regions': expected codegens=..., found none
// TYPES: input 'input0': expected a tensor of f32, f64, {{.*}}, found index; compile the model as a whole
func.func @main(%x: tensor<4x8xf32> {rtask.name = "x"}) -> (tensor<4x2xf32>, tensor<4x2xf32>) {
  %w = arith.constant dense<[[0.5, -1.0], [0.25, 3.0], [-0.75, 2.0], [1.0, 0.125], [0.1, -0.2], [0.3, -0.4], [0.7, 1.9], [-0.6, 0.8]]> : tensor<8x2xf32>
  %b = arith.constant dense<[0.5, 0.25]> : tensor<2xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x2xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x2xf32>) -> tensor<4x2xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<4x8xf32>, tensor<8x2xf32>) outs(%f : tensor<4x2xf32>) -> tensor<4x2xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%0, %b : tensor<4x2xf32>, tensor<2xf32>) outs(%e : tensor<4x2xf32>) {
  ^bb0(%in: f32, %bias: f32, %out: f32):
    %2 = arith.addf %in, %bias : f32
    linalg.yield %2 : f32
  } -> tensor<4x2xf32>
  %v = arith.constant dense<[[1.5, 0.5], [2.25, -3.0], [-0.5, 1.0], [1.0, 0.25], [0.3, 0.2], [-0.3, 0.9], [0.1, -1.9], [0.6, 0.4]]> : tensor<8x2xf32>
  %c = arith.constant dense<[-0.5, 0.125]> : tensor<2xf32>
  %three = arith.constant 3.0 : f32
  %larger = tensor.empty() : tensor<4x8xf32>
  %2 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xf32>) outs(%larger : tensor<4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %5 = arith.mulf %in, %three : f32
    linalg.yield %5 : f32
  } -> tensor<4x8xf32>
  %3 = linalg.matmul ins(%2, %v : tensor<4x8xf32>, tensor<8x2xf32>) outs(%f : tensor<4x2xf32>) -> tensor<4x2xf32>
  %4 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%3, %c : tensor<4x2xf32>, tensor<2xf32>) outs(%e : tensor<4x2xf32>) {
  ^bb0(%in: f32, %bias: f32, %out: f32):
    %5 = arith.addf %in, %bias : f32
    linalg.yield %5 : f32
  } -> tensor<4x2xf32>
  return %1, %4 : tensor<4x2xf32>, tensor<4x2xf32>
}
