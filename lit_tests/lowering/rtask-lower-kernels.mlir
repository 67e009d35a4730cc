// RUN: rammer-opt %s --rtask-lower-kernels | filecheck %s

// Only rKernels are lowered: buffers are bare pointers, nothing of a runtime library is called.
// CHECK: func.func @main
// CHECK: memref.copy
// CHECK: llvm.func @kernel(%{{.*}}: i64, %{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr)
// CHECK-NOT: llvm.call
// CHECK: llvm.intr.masked.store
func.func @main(%x: memref<3xf32>, %y: memref<3xf32>) {
  memref.copy %x, %y : memref<3xf32> to memref<3xf32>
  return
}
func.func private @kernel(%id: index, %x: memref<3xf32>, %y: memref<3xf32>) {
  memref.copy %x, %y : memref<3xf32> to memref<3xf32>
  return
}
