// aarch64: the hint for a spinning thread, and the floating-point mode of a thread.

// No hint makes a spinning thread cheaper on all aarch64 processors.
llvm.func internal @rammer_pause() {
  llvm.return
}

// The thread's floating-point mode: rounding, and whether denormal numbers are flushed to zero.
llvm.func @$float_mode() -> i64 {
  %mode = llvm.call_intrinsic "llvm.aarch64.get.fpcr"() : () -> i64
  llvm.return %mode : i64
}

llvm.func @$set_float_mode(%mode: i64) {
  llvm.call_intrinsic "llvm.aarch64.set.fpcr"(%mode) : (i64) -> ()
  llvm.return
}
