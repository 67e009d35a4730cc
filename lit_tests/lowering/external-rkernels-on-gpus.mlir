// RUN: rammer-opt %s --pass-pipeline='builtin.module(rtask-bufferize,rtask-schedule{policy=list num-veus=2},rtask-plan-memory,rtask-lower-to-gpu{target=nvvm:sm_90})' | filecheck %s
// RUN: rammer-opt %s --pass-pipeline='builtin.module(rtask-bufferize,rtask-schedule{policy=list num-veus=2},rtask-plan-memory,rtask-lower-to-gpu{target=nvvm:sm_90},rtask-gpu-to-nvvm)' | filecheck %s --check-prefix=NVVM
// RUN: sed 's/symbol = "twice"/symbol = "rammer_await"/' %s | not rammer-opt --pass-pipeline='builtin.module(rtask-bufferize,rtask-schedule{policy=list num-veus=2},rtask-plan-memory,rtask-lower-to-gpu{target=nvvm:sm_90})' 2>&1 | filecheck %s --check-prefix=NAME
// RUN: sed 's/symbol = "twice"/symbol = "twice", state/' %s | not rammer-opt --pass-pipeline='builtin.module(rtask-bufferize,rtask-schedule{policy=list num-veus=2},rtask-plan-memory,rtask-lower-to-gpu{target=nvvm:sm_90})' 2>&1 | filecheck %s --check-prefix=STATE

// An external rKernel becomes a function that all threads of a block call: it passes the thread and
// the block's size, and pointers. Behind each rTask the threads meet: the code may have shared memory.
// CHECK: gpu.module @rammer
// CHECK: llvm.func @twice(i64, i32, i32, !llvm.ptr, !llvm.ptr) attributes {convergent
// CHECK: func.func private @rkernel.twice_b(%[[ID:.*]]: index, %{{.*}}: memref<4x8xf32>, %{{.*}}: memref<4x8xf32>,
// CHECK-DAG: %[[THREADS:.*]] = arith.constant 256 : i32
// CHECK-DAG: %[[X:.*]] = gpu.thread_id{{ *}}x
// CHECK-DAG: %[[THREAD:.*]] = arith.index_cast %[[X]] : index to i32
// CHECK-DAG: %[[RTASK:.*]] = arith.index_cast %[[ID]] : index to i64
// CHECK: llvm.call @twice(%[[RTASK]], %[[THREAD]], %[[THREADS]], %{{.*}}, %{{.*}}) {convergent} : (i64, i32, i32, !llvm.ptr, !llvm.ptr) -> ()
// CHECK: gpu.func @rammer_program
// CHECK: func.call @rkernel.twice_b
// CHECK-NEXT: gpu.barrier
// CHECK-NOT: rtask.module

// The declaration stays one: it is linked later.
// NVVM: llvm.func @twice(i64, i32, i32, !llvm.ptr, !llvm.ptr) attributes {convergent
// NVVM: llvm.call @twice(

// NAME: error: external rKernel '@twice_b' ('rammer_await'): expected a name that the compiler does not use for nvvm:sm_90, found 'rammer_await'
// STATE: error: external rKernel '@twice_b' ('twice'): expected a function without a state for nvvm:sm_90, found one with a state
"rtask.module"() {sym_name = "code", form = "ptx", code = ".version 7.0"} : () -> ()
rtask.kernel @twice rtasks(4) operations(8) bytes(64) attributes {external = {module = @code, symbol = "twice"}} {
  reads 0[d0 +: 1, 0 +: 8]
  writes 1[d0 +: 1, 0 +: 8]
}
func.func private @twice(index, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @main(%x: tensor<4x8xf32> {rtask.name = "x"}) -> (tensor<4x8xf32> {rtask.name = "y"}) {
  %0 = rtask.operator @twice(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
