// Regions and the host exchange activations in blocks of channels, where the other side may have them so too.
// RUN: rammer-opt %s --plugin %S/Inputs/codegens.py --pass-pipeline='builtin.module(linalg-generalize-named-ops,rtask-annotate-regions{codegens=blocks},rtask-outline-regions,rtask-layout-regions,canonicalize)' | filecheck %s
// RUN: rammer-opt %s --plugin %S/Inputs/codegens.py --pass-pipeline='builtin.module(linalg-generalize-named-ops,rtask-annotate-regions{codegens=blocks},rtask-outline-regions,rtask-layout-regions,canonicalize,rtask-pack-weights,rtask-block-channels,canonicalize)' | filecheck %s --check-prefix=HOST

// The function's arguments and results are in blocks, its computation is on plain values.
// CHECK: func.func private @[[TANH:.*]](%{{.*}}: tensor<1x2x8x8x16xf32>) -> tensor<1x2x8x8x16xf32> attributes {rtask.codegen = "blocks"}
// CHECK: linalg.unpack
// CHECK: math.tanh
// CHECK: linalg.pack
// CHECK: func.func private @[[EXP:.*]](%{{.*}}: tensor<1x2x8x8x16xf32>) -> tensor<1x32x8x8xf32> attributes {rtask.codegen = "blocks"}
// CHECK: linalg.unpack
// CHECK: math.exp
// CHECK: func.func @main
// CHECK: %[[IN:.*]] = linalg.pack %{{.*}} inner_dims_pos = [1] inner_tiles = [16]
// CHECK: %[[ONE:.*]] = call @[[TANH]](%[[IN]])
// Nothing is converted between two regions.
// CHECK-NEXT: %[[TWO:.*]] = call @[[TANH]](%[[ONE]])
// CHECK-NEXT: %[[EMPTY:.*]] = tensor.empty
// CHECK-NEXT: linalg.unpack %[[TWO]]
// CHECK: linalg.generic
// The other side of what the model returns is the user's.
// CHECK: %[[LAST:.*]] = call @[[EXP]]
// CHECK-NEXT: return %[[LAST]]

// Convolutions of the host write and read such blocks: nothing is converted at all.
// HOST: func.func @main
// HOST: %[[CONV:.*]] = linalg.generic
// HOST: } -> tensor<1x2x8x8x16xf32>
// HOST-NEXT: %[[ONE:.*]] = call @{{.*}}(%[[CONV]])
// HOST-NEXT: %[[TWO:.*]] = call @{{.*}}(%[[ONE]])
// HOST: %[[SECOND:.*]] = linalg.generic {{.*}} ins(%[[TWO]]
// HOST: } -> tensor<1x2x8x8x16xf32>
// HOST-NEXT: %[[LAST:.*]] = call @{{.*}}(%[[SECOND]])
// HOST-NEXT: return %[[LAST]]
func.func @main(%x: tensor<1x32x8x8xf32>, %w: tensor<32x32x1x1xf32> {rtask.constant = "w"}) -> tensor<1x32x8x8xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x32x8x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x32x8x8xf32>) -> tensor<1x32x8x8xf32>
  %0 = linalg.conv_2d_nchw_fchw {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>} ins(%x, %w : tensor<1x32x8x8xf32>, tensor<32x32x1x1xf32>) outs(%f : tensor<1x32x8x8xf32>) -> tensor<1x32x8x8xf32>
  %1 = linalg.tanh ins(%0 : tensor<1x32x8x8xf32>) outs(%e : tensor<1x32x8x8xf32>) -> tensor<1x32x8x8xf32>
  %2 = linalg.tanh ins(%1 : tensor<1x32x8x8xf32>) outs(%e : tensor<1x32x8x8xf32>) -> tensor<1x32x8x8xf32>
  %3 = linalg.conv_2d_nchw_fchw {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>} ins(%2, %w : tensor<1x32x8x8xf32>, tensor<32x32x1x1xf32>) outs(%f : tensor<1x32x8x8xf32>) -> tensor<1x32x8x8xf32>
  %4 = linalg.exp ins(%3 : tensor<1x32x8x8xf32>) outs(%e : tensor<1x32x8x8xf32>) -> tensor<1x32x8x8xf32>
  return %4 : tensor<1x32x8x8xf32>
}
