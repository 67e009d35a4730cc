// From linalg to an object without rammer-compile: one function for all vEUs, whose arguments the module's rtask.launch names.
// RUN: rammer-opt %s -p 'builtin.module(linalg-generalize-named-ops,canonicalize,cse,rtask-form-operators,rtask-tile,rtask-bufferize,rtask-schedule{num-veus=2},rtask-minimize-barriers,rtask-plan-memory,rtask-verify-schedule)' -o %t.mlir
// RUN: rammer-opt %t.mlir --rtask-lower-to-cpu=machine=x86-64-v3 -o %t.cpu.mlir
// RUN: filecheck %s --input-file %t.cpu.mlir
// RUN: rammer-opt %t.mlir --rtask-lower-to-cpu='symbol=square straight-line-limit=0' --emit-llvm-ir | filecheck %s --check-prefix=TEXT
// RUN: rammer-opt %t.cpu.mlir --emit-object -o %t.o
// RUN: %python -c "import sys; assert open(sys.argv[1], 'rb').read(4) == b'\x7fELF'" %t.o
// RUN: not rammer-opt %s --rtask-lower-to-cpu 2>&1 | filecheck %s --check-prefix=EARLY
// RUN: not rammer-opt %t.mlir --emit-object -o %t.none 2>&1 | filecheck %s --check-prefix=OTHER
// RUN: not rammer-opt %t.mlir --rtask-lower-to-cpu=machine=abacus 2>&1 | filecheck %s --check-prefix=MACHINE
// RUN: not rammer-opt %t.mlir --rtask-lower-to-cpu=symbol=rammer_run_veu 2>&1 | filecheck %s --check-prefix=TAKEN
// RUN: not rammer-opt %t.cpu.mlir --emit-object --emit-llvm-ir 2>&1 | filecheck %s --check-prefix=BOTH

// CHECK: module attributes {rtask.launch = {arguments = ["x", "argument1", "arena"], bytes = array<i64: 256, 256, {{[0-9]+}}>, counter_bytes = {{[0-9]+}} : i64, symbol = "rammer_main", veus = {{[12]}} : i64}, rtask.machine = "x86-64-v3"}
// CHECK: llvm.func internal @rkernel.
// CHECK-NOT: rtask.program
// CHECK: llvm.func internal @rammer_run_veu(
// CHECK: llvm.mlir.global internal constant @rammer_main.records(
// CHECK: llvm.func @rammer_main(%{{.*}}: i64, %{{.*}}: i64, %{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr)
// CHECK: llvm.call @rammer_run_veu(
// TEXT: define void @square(i64 %{{.*}}, i64 %{{.*}}, ptr %{{.*}}, ptr %{{.*}})
// EARLY: error: {{.*}}expected at least one rtask.program, found none: run rtask-schedule first
// OTHER: error: translating to LLVM IR: expected operations of the LLVM dialect, found '{{.*}}'; lower it first
// TAKEN: error: rtask-lower-to-cpu: symbol: expected a name that the generated code leaves free, found 'rammer_run_veu'
// MACHINE: error: {{.*}}abacus
// BOTH: error: give --emit-llvm-ir or --emit-object, not both
func.func @main(%x: tensor<8x8xf32> {rtask.name = "x"}) -> tensor<8x8xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<8x8xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<8x8xf32>) -> tensor<8x8xf32>
  %0 = linalg.matmul ins(%x, %x : tensor<8x8xf32>, tensor<8x8xf32>) outs(%fill : tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = linalg.matmul ins(%x, %0 : tensor<8x8xf32>, tensor<8x8xf32>) outs(%fill : tensor<8x8xf32>) -> tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}
