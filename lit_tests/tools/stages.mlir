// Every stage that --emit prints; the stages in IR are given back, also edited, and give the numbers of the model.
// RUN: rm -rf %t && mkdir -p %t
// RUN: %python %S/Inputs/arrays.py %t/in.npz x=1,2,3,4
// RUN: rammer-compile %s --emit linalg -o - | filecheck %s --check-prefix=LINALG
// RUN: rammer-compile %s --emit linalg -o %t/linalg.mlir
// RUN: rammer-compile %s --plugin %S/Inputs/squares.py --offload squares --offload-choice always --emit regions -o %t/regions.mlir
// RUN: filecheck %s --check-prefix=REGIONS --input-file %t/regions.mlir
// RUN: rammer-compile %s --emit operators -o %t/operators.mlir
// RUN: rammer-compile %s --emit tasks -o %t/tasks.mlir
// RUN: rammer-compile %s --emit buffers -o %t/buffers.mlirbc
// RUN: rammer-compile %s --emit program -o %t/program.mlir
// RUN: filecheck %s --check-prefix=OPERATORS --input-file %t/operators.mlir
// RUN: filecheck %s --check-prefix=TASKS --input-file %t/tasks.mlir
// RUN: rammer-opt %t/buffers.mlirbc | filecheck %s --check-prefix=BUFFERS
// RUN: filecheck %s --check-prefix=PROGRAM --input-file %t/program.mlir
// RUN: rammer-compile %s --emit target | filecheck %s --check-prefix=TARGET
// RUN: rammer-compile %s --emit llvm | filecheck %s --check-prefix=LLVM
// RUN: rammer-compile %s --emit object -o %t/object.o
// RUN: rammer-compile %s --target nvvm:sm_90 --emit ptx | filecheck %s --check-prefix=PTX
// RUN: not rammer-compile %s --emit ptx 2>&1 | filecheck %s --check-prefix=WRONG
// RUN: not rammer-compile %s --emit-values 2>&1 | filecheck %s --check-prefix=VALUES
// RUN: not rammer-compile %s --emit program --explain 2>&1 | filecheck %s --check-prefix=EXPLAIN

// RUN: rammer-run %t/linalg.mlir --inputs %t/in.npz --outputs %t/linalg.npz
// RUN: %python %S/Inputs/arrays.py %t/linalg.npz | filecheck %s
// RUN: rammer-run %t/regions.mlir --plugin %S/Inputs/squares.py --offload squares --offload-choice always --inputs %t/in.npz --outputs %t/regions.npz
// RUN: %python %S/Inputs/arrays.py %t/regions.npz | filecheck %s
// RUN: not rammer-run %t/regions.mlir 2>&1 | filecheck %s --check-prefix=OFFLOAD
// RUN: rammer-run %t/operators.mlir --inputs %t/in.npz --outputs %t/operators.npz
// RUN: %python %S/Inputs/arrays.py %t/operators.npz | filecheck %s
// RUN: rammer-run %t/tasks.mlir --inputs %t/in.npz --outputs %t/tasks.npz
// RUN: %python %S/Inputs/arrays.py %t/tasks.npz | filecheck %s
// RUN: rammer-run %t/buffers.mlirbc --inputs %t/in.npz --outputs %t/buffers.npz
// RUN: %python %S/Inputs/arrays.py %t/buffers.npz | filecheck %s
// RUN: rammer-run %t/program.mlir --inputs %t/in.npz --outputs %t/program.npz
// RUN: %python %S/Inputs/arrays.py %t/program.npz | filecheck %s
// RUN: sed 's/arith.mulf/arith.addf/' %t/tasks.mlir > %t/edited.mlir
// RUN: rammer-run %t/edited.mlir --inputs %t/in.npz --outputs %t/edited.npz
// RUN: %python %S/Inputs/arrays.py %t/edited.npz | filecheck %s --check-prefix=EDITED

// CHECK: y float32 [1.0, 4.0, 9.0, 16.0]
// LINALG: linalg.generic
// LINALG-NOT: rtask.operator
// REGIONS: func.func private @squares_0({{.*}}rtask.codegen = "squares"
// OPERATORS: rtask.operator @elementwise_0(%arg0) : (tensor<4xf32>) -> tensor<4xf32>
// TASKS: rtask.kernel @elementwise_0_t0 rtasks(1)
// BUFFERS: rtask.operator 0 @elementwise_0_t0_b(%arg0, %arg1) : (memref<4xf32>, memref<4xf32>) -> ()
// PROGRAM: rtask.program on "cpu"
// PROGRAM-NEXT: %arg0: memref<4xf32>
// PROGRAM: run @elementwise_0_t0_b[0] of 0
// TARGET: llvm.func hidden @rkernel.elementwise_0_t0_b
// LLVM: define hidden void @rkernel.elementwise_0_t0_b
// PTX: .target sm_90
// PTX: .visible .entry rammer_program
// WRONG: error: {{.*}}ptx
// VALUES: error: --emit-values: expected --emit with it, found none; give both
// EXPLAIN: error: --explain: expected a whole compilation; leave --emit out
// OFFLOAD: error: stage 'regions': {{.*}}or code generators with offload (--offload)
// EDITED: y float32 [2.0, 4.0, 6.0, 8.0]
func.func @main(%x: tensor<4xf32> {rtask.name = "x"}) -> (tensor<4xf32> {rtask.name = "y"}) {
  %0 = arith.mulf %x, %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
