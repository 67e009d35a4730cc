// RUN: rammer-opt %s --rtask-lower-kernels | filecheck %s

// Only rKernels are lowered: buffers are bare pointers, nothing of a runtime library is called.
// CHECK: func.func @main
// CHECK: memref.copy
// CHECK: llvm.func @kernel(%{{.*}}: i64, %{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr)
// CHECK-NOT: llvm.call
// CHECK: llvm.store {{.*}} : vector<
func.func @main(%x: memref<64xf32>, %y: memref<64xf32>) {
  memref.copy %x, %y : memref<64xf32> to memref<64xf32>
  return
}
func.func private @kernel(%id: index, %x: memref<64xf32>, %y: memref<64xf32>) {
  memref.copy %x, %y : memref<64xf32> to memref<64xf32>
  return
}
