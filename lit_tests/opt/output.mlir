// Forms of the output: generic, local scope, elided constants, locations with the file's name, bytecode of a version, round trips.
// RUN: rammer-opt %s --mlir-print-op-generic --mlir-print-local-scope | filecheck %s --check-prefix=GENERIC
// RUN: rammer-opt %s --mlir-elide-elementsattrs-if-larger=2 --mlir-elide-resource-strings-if-larger=8 | filecheck %s --check-prefix=ELIDED
// RUN: rammer-opt %s --mlir-print-debuginfo --mlir-print-local-scope | filecheck %s --check-prefix=DEBUG
// RUN: rammer-opt %s --emit-bytecode --emit-bytecode-version=5 | rammer-opt --mlir-print-debuginfo --mlir-print-local-scope | filecheck %s --check-prefix=DEBUG
// RUN: rammer-opt %s --verify-roundtrip --no-implicit-module=false | filecheck %s --check-prefix=PLAIN
// RUN: rammer-opt %s --mlir-print-skip-regions | filecheck %s --check-prefix=SKIPPED
// RUN: not rammer-opt %s --no-implicit-module 2>&1 | filecheck %s --check-prefix=MODULE
// RUN: not rammer-opt %s --emit-bytecode --emit-bytecode-version=1000 2>&1 | filecheck %s --check-prefix=VERSION

// GENERIC: "builtin.module"() ({
// GENERIC: affine_map<(d0) -> (d0)>
// ELIDED: #map = affine_map
// ELIDED: dense_resource<__elided__>
// ELIDED-NOT: 0x04000000
// DEBUG: return {{.*}} loc("{{.*}}output.mlir":26:3)
// PLAIN: dense<[1.000000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00]>
// PLAIN: bytes: "0x040000000000803F"
// SKIPPED: module {...}
// MODULE: error: --no-implicit-module: expected one 'builtin.module' as top-level operation, found others
// VERSION: error: --emit-bytecode-version: 1000:
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> attributes {map = affine_map<(d0) -> (d0)>} {
  %c = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %r = arith.constant dense_resource<bytes> : tensor<1xf32>
  %0 = arith.addf %a, %c : tensor<4xf32>
  return %0 : tensor<4xf32>
}
{-#
  dialect_resources: {
    builtin: {
      bytes: "0x040000000000803F"
    }
  }
#-}
