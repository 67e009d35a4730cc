// Locations in the shorter form; names of values taken from the locations that have one.
// RUN: rammer-opt %s --mlir-pretty-debuginfo | filecheck %s --check-prefix=PRETTY
// RUN: rammer-opt %s --mlir-use-nameloc-as-prefix | filecheck %s --check-prefix=NAMED

// PRETTY-NOT: loc(
// PRETTY: func.func @main(%arg0: tensor<4xf32> "left", %arg1: tensor<4xf32> "right")
// PRETTY-NEXT: %0 = arith.addf %arg0, %arg1 : tensor<4xf32> "total"(#loc
// PRETTY-NEXT: return %0 : tensor<4xf32> {{.*}}locations.mlir:15:3
// PRETTY: #loc{{[0-9]+}} = model.py:7:3

// NAMED: func.func @main(%left: tensor<4xf32>, %right: tensor<4xf32>)
// NAMED-NEXT: %total = arith.addf %left, %right : tensor<4xf32>
func.func @main(%a: tensor<4xf32> loc("left"), %b: tensor<4xf32> loc("right")) -> tensor<4xf32> {
  %0 = arith.addf %a, %b : tensor<4xf32> loc("total"("model.py":7:3))
  return %0 : tensor<4xf32>
}
