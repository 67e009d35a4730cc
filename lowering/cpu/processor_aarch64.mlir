// What aarch64 processors have for a spinning thread, and for the mode in which a thread computes.

// There is no hint that makes a spinning thread cheaper on all of them.
llvm.func internal @rammer_pause() {
  llvm.return
}

// The thread's floating-point mode: rounding, and whether denormal numbers count as zero.
llvm.func internal @rammer_float_mode() -> i64 {
  %mode = llvm.call_intrinsic "llvm.aarch64.get.fpcr"() : () -> i64
  llvm.return %mode : i64
}

llvm.func internal @rammer_set_float_mode(%mode: i64) {
  llvm.call_intrinsic "llvm.aarch64.set.fpcr"(%mode) : (i64) -> ()
  llvm.return
}
