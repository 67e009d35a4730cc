// RUN: rammer-opt %s --split-input-file --verify-diagnostics --rtask-verify-schedule -o /dev/null

// A correct program: every row is written before it is read.
rtask.kernel @rows rtasks(4) operations(50000) bytes(128) {
  reads 0[d0 +: 1, 0 +: 16]
  writes 1[d0 +: 1, 0 +: 16]
}
func.func private @rows(%id: index, %a: memref<4x16xf32>, %out: memref<4x16xf32>) {
  return
}
func.func @main(%x: memref<4x16xf32>, %y: memref<4x16xf32> {rtask.output}) {
  %a = memref.alloc() : memref<4x16xf32>
  rtask.program on "cpu" veus(2) buffers(
      %x: memref<4x16xf32>,
      %a: memref<4x16xf32>,
      %y: memref<4x16xf32>) {
    veu 0 {
      run @rows[0..3] of 0 (%x, %a)
    }
    veu 1 {
      wait veu 0 @ 1
      run @rows[0..1] of 1 (%a, %y)
      wait veu 0 @ 3
      run @rows[2..3] of 1 (%a, %y)
    }
  }
  return
}

// -----

// A wait that is one rTask too early.
// expected-error@unknown {{rows[2] on vEU 1 order 2 reads what rows[2] on vEU 0 order 2 writes in 'buffer 1', and no barrier orders them}}
rtask.kernel @rows rtasks(4) operations(50000) bytes(128) {
  reads 0[d0 +: 1, 0 +: 16]
  writes 1[d0 +: 1, 0 +: 16]
}
func.func private @rows(%id: index, %a: memref<4x16xf32>, %out: memref<4x16xf32>) {
  return
}
func.func @main(%x: memref<4x16xf32>, %y: memref<4x16xf32> {rtask.output}) {
  %a = memref.alloc() : memref<4x16xf32>
  rtask.program on "cpu" veus(2) buffers(
      %x: memref<4x16xf32>,
      %a: memref<4x16xf32>,
      %y: memref<4x16xf32>) {
    veu 0 {
      run @rows[0..3] of 0 (%x, %a)
    }
    veu 1 {
      wait veu 0 @ 1
      run @rows[0..2] of 1 (%a, %y)
      wait veu 0 @ 3
      run @rows[3] of 1 (%a, %y)
    }
  }
  return
}

// -----

// An rTask is missing.
// expected-error@unknown {{rows[3] never runs: expected every rTask to run exactly once}}
rtask.kernel @rows rtasks(4) operations(50000) bytes(128) {
  reads 0[d0 +: 1, 0 +: 16]
  writes 1[d0 +: 1, 0 +: 16]
}
func.func private @rows(%id: index, %a: memref<4x16xf32>, %out: memref<4x16xf32>) {
  return
}
func.func @main(%x: memref<4x16xf32>, %y: memref<4x16xf32> {rtask.output}) {
  %a = memref.alloc() : memref<4x16xf32>
  rtask.program on "cpu" veus(2) buffers(
      %x: memref<4x16xf32>,
      %a: memref<4x16xf32>,
      %y: memref<4x16xf32>) {
    veu 0 {
      run @rows[0..3] of 0 (%x, %a)
    }
    veu 1 {
      wait veu 0 @ 3
      run @rows[0..2] of 1 (%a, %y)
    }
  }
  return
}

// -----

// An rTask runs twice.
// expected-error-re@unknown {{rows[2] runs on vEU 1 {{.*}}and again on vEU 1{{.*}}: expected every rTask to run exactly once}}
rtask.kernel @rows rtasks(4) operations(50000) bytes(128) {
  reads 0[d0 +: 1, 0 +: 16]
  writes 1[d0 +: 1, 0 +: 16]
}
func.func private @rows(%id: index, %a: memref<4x16xf32>, %out: memref<4x16xf32>) {
  return
}
func.func @main(%x: memref<4x16xf32>, %y: memref<4x16xf32> {rtask.output}) {
  %a = memref.alloc() : memref<4x16xf32>
  rtask.program on "cpu" veus(2) buffers(
      %x: memref<4x16xf32>,
      %a: memref<4x16xf32>,
      %y: memref<4x16xf32>) {
    veu 0 {
      run @rows[0..3] of 0 (%x, %a)
    }
    veu 1 {
      wait veu 0 @ 3
      run @rows[0..2] of 1 (%a, %y)
      run @rows[2..3] of 1 (%a, %y)
    }
  }
  return
}

// -----

// Two vEUs wait for each other.
// expected-error@unknown {{deadlock}}
rtask.kernel @rows rtasks(4) operations(50000) bytes(128) {
  reads 0[d0 +: 1, 0 +: 16]
  writes 1[d0 +: 1, 0 +: 16]
}
func.func private @rows(%id: index, %a: memref<4x16xf32>, %out: memref<4x16xf32>) {
  return
}
func.func @main(%x: memref<4x16xf32>, %y: memref<4x16xf32> {rtask.output}) {
  %a = memref.alloc() : memref<4x16xf32>
  rtask.program on "cpu" veus(2) buffers(
      %x: memref<4x16xf32>,
      %a: memref<4x16xf32>,
      %y: memref<4x16xf32>) {
    veu 0 {
      wait veu 1 @ 3
      run @rows[0..3] of 0 (%x, %a)
    }
    veu 1 {
      wait veu 0 @ 3
      run @rows[0..3] of 1 (%a, %y)
    }
  }
  return
}

// -----

// An rTask of the grain device beside another one, which touches other memory.
// expected-error@unknown {{rows[2] on vEU 1 order 0 may run beside whole[0] on vEU 0 order 2, which uses the whole device: expected each other rTask to end before it starts, or to start behind it}}
"rtask.module"() {sym_name = "code", form = "c", code = "int32_t whole(int64_t rtask, const float *x, float *y);"} : () -> ()
rtask.kernel @whole rtasks(1) operations(50000) bytes(512) attributes {external = {grain = "device", module = @code, symbol = "whole"}} {
  reads 0[0 +: 4, 0 +: 16]
  writes 1[0 +: 4, 0 +: 16]
}
func.func private @whole(index, memref<4x16xf32>, memref<4x16xf32>)
rtask.kernel @rows rtasks(4) operations(50000) bytes(128) {
  reads 0[d0 +: 1, 0 +: 16]
  writes 1[d0 +: 1, 0 +: 16]
}
func.func private @rows(%id: index, %a: memref<4x16xf32>, %out: memref<4x16xf32>) {
  return
}
func.func @main(%x: memref<4x16xf32>, %y: memref<4x16xf32> {rtask.output}, %z: memref<4x16xf32> {rtask.output}) {
  rtask.program on "cpu" veus(2) buffers(
      %x: memref<4x16xf32>,
      %y: memref<4x16xf32>,
      %z: memref<4x16xf32>) {
    veu 0 {
      run @rows[0..1] of 0 (%x, %z)
      run @whole[0] of 1 (%x, %y)
    }
    veu 1 {
      run @rows[2..3] of 0 (%x, %z)
    }
  }
  return
}
