
// Programs with exclusive rTasks: threads that wait for such an rTask sleep, because the rTask's
// code starts threads of its own, which need the cores.

// 1 while an exclusive rTask runs, on a separate cache line.
llvm.mlir.global internal @rammer_exclusive(0 : i32) {alignment = 64 : i64} : i32

llvm.func internal @$begin_exclusive() {
  %one = llvm.mlir.constant(1 : i32) : i32
  %flag = llvm.mlir.addressof @rammer_exclusive : !llvm.ptr
  llvm.store %one, %flag atomic seq_cst {alignment = 4 : i64} : i32, !llvm.ptr
  llvm.return
}

// Wake all sleeping threads (futex: wake, private). A thread that read 1 before and sleeps only
// afterwards is not lost: the kernel compares the value once more.
llvm.func internal @$end_exclusive() {
  %zero = llvm.mlir.constant(0 : i32) : i32
  %number = llvm.mlir.constant($futex_syscall : i64) : i64
  %wake_private = llvm.mlir.constant(129 : i64) : i64
  %everyone = llvm.mlir.constant(2147483647 : i32) : i32
  %flag = llvm.mlir.addressof @rammer_exclusive : !llvm.ptr
  llvm.store %zero, %flag atomic seq_cst {alignment = 4 : i64} : i32, !llvm.ptr
  %ignored = llvm.call @syscall(%number, %flag, %wake_private, %everyone) vararg(!llvm.func<i64 (i64, ...)>) : (i64, !llvm.ptr, i64, i32) -> i64
  llvm.return
}

// Yield between two polls: sleep while an exclusive rTask runs (futex: wait, private), otherwise
// yield as in other programs.
llvm.func internal @$yield_or_sleep() {
  %one32 = llvm.mlir.constant(1 : i32) : i32
  %number = llvm.mlir.constant($futex_syscall : i64) : i64
  %wait_private = llvm.mlir.constant(128 : i64) : i64
  %null = llvm.mlir.zero : !llvm.ptr
  %flag = llvm.mlir.addressof @rammer_exclusive : !llvm.ptr
  %exclusive = llvm.load %flag atomic seq_cst {alignment = 4 : i64} : !llvm.ptr -> i32
  %runs = llvm.icmp "eq" %exclusive, %one32 : i32
  llvm.cond_br %runs, ^sleep, ^yield
^sleep:
  %slept = llvm.call @syscall(%number, %flag, %wait_private, %one32, %null) vararg(!llvm.func<i64 (i64, ...)>) : (i64, !llvm.ptr, i64, i32, !llvm.ptr) -> i64
  llvm.br ^done
^yield:
  llvm.call @rammer_yield() : () -> ()
  llvm.br ^done
^done:
  llvm.return
}
