// x86-64: the hint for a spinning thread, and the floating-point mode of a thread.

// Tell the processor that the thread spins.
llvm.func internal @rammer_pause() {
  llvm.call_intrinsic "llvm.x86.sse2.pause"() : () -> ()
  llvm.return
}

// The thread's floating-point mode: rounding, and whether denormal numbers are flushed to zero.
llvm.func @$float_mode() -> i64 {
  %one = llvm.mlir.constant(1 : i32) : i32
  %place = llvm.alloca %one x i32 : (i32) -> !llvm.ptr
  llvm.call_intrinsic "llvm.x86.sse.stmxcsr"(%place) : (!llvm.ptr) -> ()
  %mode = llvm.load %place : !llvm.ptr -> i32
  %wide = llvm.zext %mode : i32 to i64
  llvm.return %wide : i64
}

llvm.func @$set_float_mode(%mode: i64) {
  %one = llvm.mlir.constant(1 : i32) : i32
  %place = llvm.alloca %one x i32 : (i32) -> !llvm.ptr
  %word = llvm.trunc %mode : i64 to i32
  llvm.store %word, %place : i32, !llvm.ptr
  llvm.call_intrinsic "llvm.x86.sse.ldmxcsr"(%place) : (!llvm.ptr) -> ()
  llvm.return
}
