// Where the comments may stand, for errors of the parser, of verifiers and of passes.
// RUN: rammer-opt %s --split-input-file --verify-diagnostics --rtask-plan-memory | filecheck %s
// CHECK-COUNT-2: func.func @arena

func.func private @syntax() nonsense // expected-error {{custom op 'nonsense' is unknown}}

// -----

func.func @types(%a: f32) -> i32 {
  return %a : f32
  // expected-error@-1 {{type of return operand 0 ('f32') doesn't match function result type ('i32')}}
  // expected-note@-2 {{see current operation}}
}

// -----

func.func @above(%a: f32) -> i32 {
  return %a : f32
  // expected-error-re@above {{type of return operand {{[0-9]}} {{.*}}i32}}
}

// -----

// expected-error@unknown {{expected at least one rtask.program, found none: run rtask-schedule first}}
func.func @no_program() {
  return
}

// -----

func.func @arena() {
  "rtask.program"() ({
    "rtask.veu"() ({
    ^bb0:
    }) {id = 0 : i64} : () -> ()
  }) {device = "cpu", num_veus = 1 : i64} : () -> ()
  return
}

// -----

func.func @arena() {
  "rtask.program"() ({
    "rtask.veu"() ({
    ^bb0:
    }) {id = 0 : i64} : () -> ()
  }) {device = "cpu", num_veus = 1 : i64} : () -> ()
  return
}
