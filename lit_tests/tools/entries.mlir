// A module of several functions: one artifact with all of them, or one function by its name, with weights from a file.
// RUN: rm -rf %t && mkdir -p %t
// RUN: %python %S/Inputs/arrays.py %t/in.npz x=1,2,3,4
// RUN: %python %S/Inputs/arrays.py %t/weights.npz w=10,20,30,40
// RUN: rammer-compile %s --constants %t/weights.npz -o %t/both.rammer
// RUN: rammer-run %t/both.rammer --info | filecheck %s --check-prefix=INFO
// RUN: rammer-run %t/both.rammer --entry doubled --inputs %t/in.npz --outputs %t/doubled.npz
// RUN: %python %S/Inputs/arrays.py %t/doubled.npz | filecheck %s --check-prefix=DOUBLED
// RUN: rammer-run %s --entry shifted --constants %t/weights.npz --inputs %t/in.npz --outputs %t/shifted.npz
// RUN: %python %S/Inputs/arrays.py %t/shifted.npz | filecheck %s --check-prefix=SHIFTED
// RUN: rammer-compile %s --entry shifted --constants %t/weights.npz --emit tasks --emit-values -o %t/tasks.mlirbc
// RUN: rammer-run %t/tasks.mlirbc --inputs %t/in.npz --outputs %t/values.npz
// RUN: %python %S/Inputs/arrays.py %t/values.npz | filecheck %s --check-prefix=SHIFTED
// RUN: not rammer-run %t/both.rammer 2>&1 | filecheck %s --check-prefix=CHOOSE
// RUN: not rammer-compile %s --entry none -o %t/none.rammer 2>&1 | filecheck %s --check-prefix=NONE
// RUN: not rammer-run %s --entry shifted 2>&1 | filecheck %s --check-prefix=WEIGHT

// INFO: entry 'doubled'
// INFO: input 'x'        4 float32
// INFO: entry 'shifted'
// DOUBLED: y float32 [2.0, 4.0, 6.0, 8.0]
// SHIFTED: y float32 [11.0, 22.0, 33.0, 44.0]
// CHOOSE: error: --entry: expected one of the functions 'doubled', 'shifted', found none
// NONE: error: {{.*}}entry: expected a public function of
// WEIGHT: error: {{.*}}'w'
func.func @doubled(%x: tensor<4xf32> {rtask.name = "x"}) -> (tensor<4xf32> {rtask.name = "y"}) {
  %0 = arith.addf %x, %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @shifted(%x: tensor<4xf32> {rtask.name = "x"}, %w: tensor<4xf32> {rtask.constant = "w"})
    -> (tensor<4xf32> {rtask.name = "y"}) {
  %0 = arith.addf %x, %w : tensor<4xf32>
  return %0 : tensor<4xf32>
}
