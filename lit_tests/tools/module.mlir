// A module as text, as bytecode or from standard input, compiled to an artifact or run at once.
// RUN: rm -rf %t && mkdir -p %t
// RUN: %python %S/Inputs/arrays.py %t/in.npz x=1,2,3,4
// RUN: rammer-run %s --inputs %t/in.npz --outputs %t/out.npz | filecheck %s --check-prefix=RAN
// RUN: %python %S/Inputs/arrays.py %t/out.npz | filecheck %s
// RUN: rammer-opt %s --emit-bytecode -o %t/module.mlirbc
// RUN: rammer-run %t/module.mlirbc --inputs %t/in.npz --outputs %t/bytecode.npz
// RUN: %python %S/Inputs/arrays.py %t/bytecode.npz | filecheck %s
// RUN: rammer-run - --inputs %t/in.npz --outputs %t/stream.npz < %s
// RUN: %python %S/Inputs/arrays.py %t/stream.npz | filecheck %s
// RUN: rammer-compile %s -o %t/module.rammer | filecheck %s --check-prefix=COMPILE
// RUN: rammer-run %t/module.rammer --inputs %t/in.npz --outputs %t/artifact.npz
// RUN: %python %S/Inputs/arrays.py %t/artifact.npz | filecheck %s
// RUN: rammer-run %t/module.rammer --info | filecheck %s --check-prefix=INFO
// RUN: rammer-compile - -o %t/stream.rammer < %s | filecheck %s --check-prefix=COMPILE
// RUN: not rammer-compile - < %s 2>&1 | filecheck %s --check-prefix=NAME
// RUN: not rammer-run - < %t/module.rammer 2>&1 | filecheck %s --check-prefix=ARTIFACT
// RUN: not rammer-run %s --external-data %t 2>&1 | filecheck %s --check-prefix=DATA

// CHECK: y float32 [4.0, 6.0, 8.0, 10.0]
// RAN: output 'y'{{ +}}4 float32
// COMPILE: rOperators       1 with 1 distinct rKernels
// COMPILE: written to {{.*}}.rammer
// INFO: input 'x'        4 float32
// INFO-NEXT: output 'y'       4 float32
// NAME: error: -o: expected the name of a file for the model of standard input
// ARTIFACT: error: the model is not an ONNX model
// DATA: error: --external-data: expected an ONNX model, found MLIR; leave it out
func.func @main(%x: tensor<4xf32> {rtask.name = "x"}) -> (tensor<4xf32> {rtask.name = "y"}) {
  %two = arith.constant dense<2.0> : tensor<4xf32>
  %0 = arith.mulf %x, %two : tensor<4xf32>
  %1 = arith.addf %0, %two : tensor<4xf32>
  return %1 : tensor<4xf32>
}
