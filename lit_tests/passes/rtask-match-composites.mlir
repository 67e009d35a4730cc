// From the paper's figure 3 (a) to (b): the sequence that is one instruction is marked, nothing else is.
// RUN: rammer-opt %S/Inputs/regions.mlir --plugin %S/Inputs/codegens.py --linalg-generalize-named-ops --canonicalize --cse --rtask-match-composites=table=toy | filecheck %s
// RUN: rammer-opt %S/Inputs/regions.mlir --plugin %S/Inputs/codegens.py --pass-pipeline='builtin.module(linalg-generalize-named-ops,canonicalize,cse,rtask-match-composites{table=toy script=%S/Inputs/match-tanh.mlir})' | filecheck %s --check-prefix=SCRIPT

// CHECK-NOT: rtask.composite
// CHECK: math.tanh
// CHECK: reduction{{.*}}rtask.composite = {match = 0 : i64, name = "toy.conv_add_relu"}
// CHECK: #map5{{.*}}rtask.composite = {match = 0 : i64, name = "toy.conv_add_relu"}
// CHECK: rtask.composite = {match = 0 : i64, name = "toy.conv_add_relu"}
// CHECK: arith.maximumf
// CHECK-NOT: rtask.composite

// What a script annotates is a match, beside those of the table.
// SCRIPT: rtask.composite = {match = 0 : i64, name = "toy.tanh"}
// SCRIPT: math.tanh
// SCRIPT: rtask.composite = {match = 1 : i64, name = "toy.conv_add_relu"}
