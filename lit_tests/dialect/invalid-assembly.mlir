// A case for every kind of error in the readable form, at its line; MLIR's errors keep their lines.
// RUN: rammer-opt %s --split-input-file --verify-diagnostics -o /dev/null

// expected-error@below {{expected 'operations', found '{'}}
rtask.kernel @k rtasks(2) bytes(32) {
  writes 0[d0 +: 1]
}

// -----

// expected-error@below {{expected 'threads' once, found it twice}}
rtask.kernel @k rtasks(2) threads(1) threads(1) operations(4) bytes(32) {
}

// -----

rtask.kernel @k rtasks(2) operations(4) bytes(32) {
  writes 0[d0 +: 1]
  // expected-error@below {{expected 'reads', 'writes', 'updates' or '}', found 'changes'}}
  changes 0[d0 +: 1]
}

// -----

rtask.kernel @k rtasks(2) operations(4) bytes(32) {
  // expected-error@below {{expected '+:', found ']'}}
  writes 0[d0]
}

// -----

// MLIR reads the offsets, the verifier checks them.
rtask.kernel @k rtasks(2) operations(4) bytes(32) {
  reads 0[0 +: 1]
  // expected-error@below {{use of undeclared identifier}}
  writes 1[d1 +: 1]
}

// -----

// expected-error@below {{expected seconds with a decimal point, found '1'}}
rtask.kernel @k rtasks(2) operations(4) bytes(32) seconds(1) {}

// -----

// expected-error@+2 {{expected '}', found the end of the text}}
rtask.kernel @k rtasks(2) operations(4) bytes(32) attributes {test.open

// -----

func.func private @f()
func.func @main() {
  // expected-error@below {{expected the symbol of an rKernel or '[', found 'f'}}
  rtask.operator f() : () -> ()
  return
}

// -----

func.func private @f()
func.func @main() {
  // expected-error@below {{expected a result type or '(', found '1'}}
  rtask.operator @f() : () -> 1
  return
}

// -----

func.func @main() {
  // expected-error@below {{'rtask.operator' op expected a function @f, got no such symbol}}
  rtask.operator
    "named"
    @f() : () -> ()
  return
}

// -----

func.func @main() {
  // expected-error@below {{expected 'rtask.kernel' or 'rtask.operator' or 'rtask.program', found 'rtask.run'}}
  rtask.run @k[0] of 0 ()
  return
}

// -----

func.func @main() {
  // expected-error@below {{expected the name of a device in quotes, found 'cpu'}}
  rtask.program on cpu veus(1) {}
  return
}

// -----

func.func @main() {
  rtask.program on "cpu" veus(1) {
    // expected-error@below {{expected 'veu' or '}', found 'run'}}
    run @k[0] of 0 ()
  }
  return
}

// -----

func.func @main(%a: memref<4xf32>) {
  // expected-error@below {{expected '%a' once, found it twice}}
  rtask.program on "cpu" veus(1) buffers(%a: memref<4xf32>, %a: memref<4xf32>) {
    veu 0 {}
  }
  return
}

// -----

func.func @main(%a: memref<4xf32>) {
  rtask.program on "cpu" veus(1) {
    veu 0 {
      // expected-error@below {{expected a value in the rProgram's list of buffers, found '%a': add '%a: TYPE' to buffers(...)}}
      run @k[0] of 0 (%a)
    }
  }
  return
}

// -----

// The type is MLIR's to check.
// expected-note@below {{prior use here}}
func.func @main(%a: memref<4xf32>) {
  rtask.program on "cpu" veus(1) buffers(%a: memref<5xf32>) {
    veu 0 {
      // expected-error@below {{use of value '%a' expects different type than prior uses: 'memref<5xf32>' vs 'memref<4xf32>'}}
      run @k[0] of 0 (%a)
    }
  }
  return
}

// -----

func.func @main() {
  rtask.program on "cpu" veus(1) {
    veu 0 {
      // expected-error@below {{expected 'run', 'wait' or '}', found 'sleep'}}
      sleep
    }
  }
  return
}

// -----

func.func @main() {
  rtask.program on "cpu" veus(1) {
    veu 0 {
      // expected-error@below {{expected '@', found '12'}}
      wait veu 1 12
    }
  }
  return
}

// -----

func.func @main() {
  rtask.program on "cpu" veus(2) {
    veu 0 {}
    veu 1 {
      // expected-error@below {{'rtask.barrier' op expected a wait for an order < 0 of vEU 0, got 3}}
      wait veu 0 @ 3
    }
  }
  return
}

// -----

func.func @main() {
  // expected-error@below {{'rtask.program' op expected 2 vEUs, got 1: num_veus counts the regions}}
  rtask.program on "cpu" veus(2) {
    veu 0 {}
  }
  return
}

// -----

func.func @main() {
  rtask.program on "cpu" veus(1) {
    veu 0 {
      // expected-error@below {{expected the number of an rTask, found '123456789012345678901'}}
      run @k[0..123456789012345678901] of 0 ()
    }
  }
  return
}
