// Options in LLVM's forms: one dash or two, switches with values, an alias; unknown ones are refused with the nearest spelling.
// RUN: rammer-opt %s -cse -rtask-form-operators -verify-each=false -mlir-timing=false | filecheck %s
// RUN: rammer-opt -p 'builtin.module(func.func(cse),rtask-form-operators)' %s -o=- | filecheck %s
// RUN: rammer-opt -pass-pipeline='builtin.module(cse,rtask-form-operators{boundary=none})' -dump-pass-pipeline %s -o /dev/null 2>&1 | filecheck %s --check-prefix=DUMP
// RUN: not rammer-opt %s --cse --mlir-timng 2>&1 | filecheck %s --check-prefix=OPTION
// RUN: not rammer-opt %s -canonicalise 2>&1 | filecheck %s --check-prefix=PASS
// RUN: not rammer-opt %s --rtask-form-operator=boundary=none 2>&1 | filecheck %s --check-prefix=OWN
// RUN: not rammer-opt %s --verify-each=perhaps 2>&1 | filecheck %s --check-prefix=VALUE
// RUN: not rammer-opt %s -p 'builtin.module(func.func(canonicalise))' 2>&1 | filecheck %s --check-prefix=NESTED
// RUN: rammer-opt --show-dialects | filecheck %s --check-prefix=DIALECTS
// RUN: rammer-opt --version | filecheck %s --check-prefix=VERSION

// CHECK: rtask.operator @addf_0
// DUMP: builtin.module(
// DUMP-NEXT: cse,
// DUMP-NEXT: rtask-form-operators{boundary=none enough=64 inputs=3 device=cpu num-veus=1 per-operator=false}
// DUMP-NEXT: )
// OPTION: error: unknown option or pass '--mlir-timng': did you mean '--mlir-timing'?
// PASS: error: unknown option or pass '--canonicalise': did you mean '--canonicalize'?
// OWN: error: unknown option or pass '--rtask-form-operator': did you mean '--rtask-form-operators'?
// VALUE: error: --verify-each: expected true or false, found 'perhaps'
// NESTED: error: pass pipeline, column 26: unknown pass 'canonicalise', did you mean 'canonicalize'?
// DIALECTS: Available Dialects: {{.*}}arith{{.*}}linalg{{.*}}rtask
// VERSION: rammer-opt {{[0-9]+\.[0-9]+}}
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.addf %a, %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}
