// From the paper's figure 3 (c) to (d): with two operations at most, the first region is cut in two.
// RUN: rammer-opt %S/Inputs/regions.mlir --plugin %S/Inputs/codegens.py --linalg-generalize-named-ops --canonicalize --cse --rtask-match-composites=table=toy --rtask-annotate-regions=codegens=toy --rtask-merge-regions --rtask-split-regions=operations=2 | filecheck %s
// RUN: rammer-opt %S/Inputs/regions.mlir --plugin %S/Inputs/codegens.py --linalg-generalize-named-ops --canonicalize --cse --rtask-match-composites=table=toy --rtask-annotate-regions=codegens=toy --rtask-split-regions | filecheck %s --check-prefix=MACS
// RUN: rammer-opt %S/Inputs/regions.mlir --plugin %S/Inputs/codegens.py --linalg-generalize-named-ops --canonicalize --cse --rtask-annotate-regions=codegens=small --rtask-merge-regions --rtask-split-regions=min-macs=0 | filecheck %s --check-prefix=SMALL

// CHECK-COUNT-2: id = 0 : i64
// CHECK: id = 1 : i64
// CHECK-NOT: rtask.region
// CHECK: math.tanh
// CHECK-COUNT-4: id = 2 : i64
// CHECK-NOT: rtask.region

// Without merging, additions are regions without multiplications that are added up: they fall back to the host.
// MACS: codegen = "toy", id = 0 : i64
// MACS-NOT: codegen
// MACS: outs(%1 : tensor<1x4x8x8xf32>)
// MACS-SAME: codegen = "toy", id = 1 : i64
// MACS-NOT: codegen
// MACS: math.tanh
// MACS-COUNT-3: codegen = "toy", id = 2 : i64
// MACS-NOT: codegen

// The limits are the code generator's, and it takes nothing without enough arithmetic.
// SMALL-COUNT-2: codegen = "small", id = 0 : i64
// SMALL: codegen = "small", id = 1 : i64
// SMALL-NOT: rtask.region
// SMALL: math.tanh
// SMALL-COUNT-2: codegen = "small", id = 2 : i64
// SMALL-NOT: rtask.region
