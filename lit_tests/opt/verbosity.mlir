// Steps and their times with --verbose; nothing with --quiet; a traceback before the error with --debug; an extension of a module by --load.
// RUN: rammer-opt %s --cse --verbose -o /dev/null 2>&1 | filecheck %s --check-prefix=VERBOSE
// RUN: rammer-opt %s --cse --quiet -o /dev/null 2> %t.quiet
// RUN: not grep . %t.quiet
// RUN: not rammer-opt %s --rtask-plan-memory --debug 2>&1 | filecheck %s --check-prefix=DEBUG
// RUN: not rammer-opt %s --rtask-plan-memory 2>&1 | filecheck %s --check-prefix=ERROR
// RUN: rammer-opt %s --load %S/Inputs/extensions.py --mark-functions=mark=loaded | filecheck %s --check-prefix=LOAD
// RUN: not rammer-opt %s --load no_such_module 2>&1 | filecheck %s --check-prefix=MISSING

// VERBOSE: parse: {{[0-9.]+}} s
// VERBOSE-NEXT: passes: {{[0-9.]+}} s
// VERBOSE-NEXT: write: {{[0-9.]+}} s
// DEBUG: Traceback (most recent call last):
// DEBUG: {{^}}error: expected at least one rtask.program, found none: run rtask-schedule first
// ERROR-NOT: Traceback
// ERROR: error: expected at least one rtask.program, found none: run rtask-schedule first
// LOAD: func.func @main{{.*}}attributes {loaded = "1"}
// MISSING: error: {{.*}}no_such_module
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.addf %a, %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}
