// RUN: rammer-opt %s --split-input-file --rtask-recompute=memory=512 | filecheck %s
// RUN: rammer-opt %s --split-input-file --rtask-recompute=memory=768 | filecheck %s --check-prefix=FITS
// RUN: not rammer-opt %s --split-input-file --rtask-recompute 2>&1 | filecheck %s --check-prefix=MEMORY

// MEMORY: rtask-recompute: memory: expected at least 1, found 0

// What is read at once and again at the end is computed again, behind the view that the reader has.
// CHECK-LABEL: func.func @main(%{{.*}}: tensor<4x16xf32>)
// CHECK: %[[A:.*]] = rtask.operator @cheap(%[[X:.*]])
// CHECK: %[[B:.*]] = rtask.operator @cheap(%[[A]])
// CHECK: %[[C:.*]] = rtask.operator @cheap(%[[B]])
// CHECK: %[[AGAIN:.*]] = rtask.operator @cheap(%[[X]])
// CHECK: %[[VIEW:.*]] = tensor.collapse_shape %[[AGAIN]]
// CHECK: rtask.operator @join(%[[C]], %[[VIEW]])
// CHECK-NOT: rtask.operator

// With memory for three values, nothing is.
// FITS-LABEL: func.func @main(%{{.*}}: tensor<4x16xf32>)
// FITS-COUNT-3: rtask.operator @cheap
// FITS-NOT: rtask.operator @cheap
// FITS: rtask.operator @join
rtask.kernel @cheap rtasks(4) operations(16) bytes(128) {
  reads 0[d0 +: 1, 0 +: 16]
  writes 1[d0 +: 1, 0 +: 16]
}
func.func private @cheap(%id: index, %a: tensor<4x16xf32>, %out: tensor<4x16xf32>) -> tensor<4x16xf32> {
  return %out : tensor<4x16xf32>
}
rtask.kernel @join rtasks(1) operations(16) bytes(128) {
  reads 0[0 +: 4, 0 +: 16]
  reads 1[0 +: 64]
  writes 2[0 +: 4, 0 +: 16]
}
func.func private @join(%id: index, %a: tensor<4x16xf32>, %b: tensor<64xf32>, %out: tensor<4x16xf32>) -> tensor<4x16xf32> {
  return %out : tensor<4x16xf32>
}
func.func @main(%x: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %a = rtask.operator @cheap(%x) : (tensor<4x16xf32>) -> tensor<4x16xf32>
  %flat = tensor.collapse_shape %a [[0, 1]] : tensor<4x16xf32> into tensor<64xf32>
  %b = rtask.operator @cheap(%a) : (tensor<4x16xf32>) -> tensor<4x16xf32>
  %c = rtask.operator @cheap(%b) : (tensor<4x16xf32>) -> tensor<4x16xf32>
  %d = rtask.operator @join(%c, %flat) : (tensor<4x16xf32>, tensor<64xf32>) -> tensor<4x16xf32>
  return %d : tensor<4x16xf32>
}

// -----

// Code from elsewhere is not run twice.
// CHECK-LABEL: func.func @main(%{{.*}}: tensor<64xf32>)
// CHECK-COUNT-4: rtask.operator
// CHECK-NOT: rtask.operator
// FITS-LABEL: func.func @main(%{{.*}}: tensor<64xf32>)
"rtask.module"() {sym_name = "code", form = "c", code = "int f();"} : () -> ()
rtask.kernel @foreign rtasks(1) operations(8) bytes(64) attributes {external = {module = @code, symbol = "f"}} {
  reads 0[0 +: 64]
  reads 1[0 +: 64]
  writes 2[0 +: 64]
}
func.func private @foreign(index, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {
  %a = rtask.operator @foreign(%x, %x) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %b = rtask.operator @foreign(%a, %a) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %c = rtask.operator @foreign(%b, %b) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %d = rtask.operator @foreign(%c, %a) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %d : tensor<64xf32>
}
