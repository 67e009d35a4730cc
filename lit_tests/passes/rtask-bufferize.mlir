// RUN: rammer-opt %s --split-input-file --linalg-generalize-named-ops --rtask-bufferize | filecheck %s

// Concatenated tensors are computed in place in the output; an intermediate gets a buffer. The same
// computation on other strides is another rKernel, and a view that is read is not copied.
// CHECK-NOT: tensor<
// CHECK: func.func private @relu_b(%{{.*}}: index, %{{.*}}: memref<4x8xf32>, %{{.*}}: memref<4x8xf32>)
// CHECK: rtask.kernel @relu_b rtasks(2)
// CHECK: func.func private @relu_b1(%{{.*}}: index, %[[A:.*]]: memref<4x8xf32>, %[[OUT:.*]]: memref<4x8xf32, strided<[16, 1]>>)
// CHECK-DAG: %[[FROM:.*]] = memref.subview %[[A]]
// CHECK-DAG: %[[TO:.*]] = memref.subview %[[OUT]]
// CHECK: linalg.generic {{.*}} ins(%[[FROM]], {{.*}} outs(%[[TO]]
// CHECK-NOT: memref.copy
// CHECK: func.func private @relu_b2(%{{.*}}: index, %{{.*}}: memref<4x8xf32, strided<[16, 1]>>, %{{.*}}: memref<4x8xf32, strided<[16, 1]>>)
// CHECK: func.func @main(%[[X:.*]]: memref<4x8xf32> {rtask.name = "x"}, %[[Y:.*]]: memref<4x16xf32> {rtask.name = "y", rtask.output}) {
// CHECK-NEXT: %[[T:.*]] = memref.alloc() : memref<4x8xf32>
// CHECK-NEXT: rtask.operator 0 @relu_b(%[[X]], %[[T]])
// CHECK-NEXT: %[[LEFT:.*]] = memref.reinterpret_cast %[[Y]] to offset: [0], sizes: [4, 8], strides: [16, 1]
// CHECK-NEXT: rtask.operator 1 @relu_b1(%[[T]], %[[LEFT]])
// CHECK-NEXT: %[[RIGHT:.*]] = memref.reinterpret_cast %[[Y]] to offset: [8], sizes: [4, 8], strides: [16, 1]
// CHECK-NEXT: rtask.operator 2 @relu_b2(%[[LEFT]], %[[RIGHT]])
// CHECK-NEXT: return
rtask.kernel @relu rtasks(2) operations(16) bytes(128) {
  reads 0[d0 * 2 +: 2, 0 +: 8]
  writes 1[d0 * 2 +: 2, 0 +: 8]
}
func.func private @relu(%id: index, %a: tensor<4x8xf32>, %out: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %row = affine.apply affine_map<()[s0] -> (s0 * 2)>()[%id]
  %zero = arith.constant dense<0.0> : tensor<2x8xf32>
  %from = tensor.extract_slice %a[%row, 0] [2, 8] [1, 1] : tensor<4x8xf32> to tensor<2x8xf32>
  %to = tensor.extract_slice %out[%row, 0] [2, 8] [1, 1] : tensor<4x8xf32> to tensor<2x8xf32>
  %0 = linalg.max ins(%from, %zero : tensor<2x8xf32>, tensor<2x8xf32>)
      outs(%to : tensor<2x8xf32>) -> tensor<2x8xf32>
  %1 = tensor.insert_slice %0 into %out[%row, 0] [2, 8] [1, 1]
      : tensor<2x8xf32> into tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
func.func @main(%x: tensor<4x8xf32> {rtask.name = "x"}) -> (tensor<4x16xf32> {rtask.name = "y"}) {
  %0 = rtask.operator @relu(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = rtask.operator @relu(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = rtask.operator @relu(%1) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = tensor.concat dim(1) %1, %2 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
  return %y : tensor<4x16xf32>
}

// -----

// An external rKernel is a candidate only where its operands are aligned: not in the caller's arrays,
// and not between two multiples of its alignment.
// CHECK: rtask.operator 0 @own_b(%
// CHECK: rtask.operator 1 [@foreign_b, @own_b](%
// CHECK: rtask.operator 2 @own_b(%
// CHECK: rtask.operator 3 @own_b(%
"rtask.module"() {sym_name = "code", form = "c", code = "int f();"} : () -> ()
rtask.kernel @foreign rtasks(1) operations(8) bytes(64) attributes {external = {module = @code, symbol = "f", alignment = 64 : i64}} {
  reads 0[0 +: 8]
  writes 1[0 +: 8]
}
func.func private @foreign(index, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
rtask.kernel @own rtasks(1) operations(8) bytes(64) {
  reads 0[0 +: 8]
  writes 1[0 +: 8]
}
func.func private @own(%id: index, %a: tensor<8xf32>, %out: tensor<8xf32>) -> tensor<8xf32> {
  %0 = linalg.exp ins(%a : tensor<8xf32>) outs(%out : tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func @main(%x: tensor<8xf32>, %w: tensor<24xf32> {rtask.constant = "w"}) -> tensor<8xf32>
    attributes {rtask.placed} {
  %a = rtask.operator [@foreign, @own](%x) : (tensor<8xf32>) -> tensor<8xf32>
  %b = rtask.operator [@foreign, @own](%a) : (tensor<8xf32>) -> tensor<8xf32>
  %part = tensor.extract_slice %w[8] [8] [1] : tensor<24xf32> to tensor<8xf32>
  %c = rtask.operator [@foreign, @own](%part) : (tensor<8xf32>) -> tensor<8xf32>
  %d = rtask.operator [@foreign, @own](%c) : (tensor<8xf32>) -> tensor<8xf32>
  return %d : tensor<8xf32>
}

// -----

// A body captures a fill, which is cloned with it.
// CHECK-LABEL: func.func private @captured_b
// CHECK: memref.alloc
// CHECK: linalg.generic
// CHECK: linalg.yield %cst
// CHECK: memref.load
#map = affine_map<(d0) -> (d0)>
rtask.kernel @captured rtasks(1) operations(4) bytes(32) {
  reads 0[0 +: 4]
  writes 1[0 +: 4]
}
func.func private @captured(%id: index, %a: tensor<4xf32>, %o: tensor<4xf32>) -> tensor<4xf32> {
  %c = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %f = linalg.generic {indexing_maps = [#map], iterator_types = ["parallel"]} outs(%e : tensor<4xf32>) {
  ^bb0(%out: f32):
    linalg.yield %c : f32
  } -> tensor<4xf32>
  %r = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%a : tensor<4xf32>) outs(%o : tensor<4xf32>) {
  ^bb0(%x: f32, %out: f32):
    %i = linalg.index 0 : index
    %v = tensor.extract %f[%i] : tensor<4xf32>
    %s = arith.addf %x, %v : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  return %r : tensor<4xf32>
}
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> attributes {rtask.placed} {
  %0 = rtask.operator @captured(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
