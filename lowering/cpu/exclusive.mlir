
// Programs with exclusive rTasks, behind runtime.mlir: vEUs that wait for such a one sleep, because its code has
// threads of its own, which need the cores.

// 1 while an exclusive rTask runs, on a cache line of its own.
llvm.mlir.global internal @rammer_exclusive(0 : i32) {alignment = 64 : i64} : i32

llvm.func internal @$begin_exclusive() {
  %one = llvm.mlir.constant(1 : i32) : i32
  %flag = llvm.mlir.addressof @rammer_exclusive : !llvm.ptr
  llvm.store %one, %flag atomic seq_cst {alignment = 4 : i64} : i32, !llvm.ptr
  llvm.return
}

// Wake all that sleep (futex: wake, private). A thread that found 1 before and sleeps only now does not: the system
// compares once more.
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

// Wait until the counter is at least the target: poll `spins` times, then sleep while an exclusive rTask runs (futex:
// wait, private), and give way after each poll where none does.
llvm.func internal @$wait_or_sleep(%counter: !llvm.ptr, %target: i64, %spins: i64) {
  %zero = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  %one32 = llvm.mlir.constant(1 : i32) : i32
  %number = llvm.mlir.constant($futex_syscall : i64) : i64
  %wait_private = llvm.mlir.constant(128 : i64) : i64
  %null = llvm.mlir.zero : !llvm.ptr
  %flag = llvm.mlir.addressof @rammer_exclusive : !llvm.ptr
  llvm.br ^poll(%zero : i64)
^poll(%n: i64):
  %value = llvm.load %counter atomic acquire {alignment = 8 : i64} : !llvm.ptr -> i64
  %reached = llvm.icmp "sge" %value, %target : i64
  llvm.cond_br %reached, ^done, ^again
^again:
  %early = llvm.icmp "slt" %n, %spins : i64
  llvm.cond_br %early, ^spin, ^late
^spin:
  llvm.call @rammer_pause() : () -> ()
  %next = llvm.add %n, %one : i64
  llvm.br ^poll(%next : i64)
^late:
  %exclusive = llvm.load %flag atomic seq_cst {alignment = 4 : i64} : !llvm.ptr -> i32
  %runs = llvm.icmp "eq" %exclusive, %one32 : i32
  llvm.cond_br %runs, ^sleep, ^yield
^sleep:
  %slept = llvm.call @syscall(%number, %flag, %wait_private, %one32, %null) vararg(!llvm.func<i64 (i64, ...)>) : (i64, !llvm.ptr, i64, i32, !llvm.ptr) -> i64
  llvm.br ^poll(%n : i64)
^yield:
  %ignored = llvm.call @sched_yield() : () -> i32
  llvm.br ^poll(%n : i64)
^done:
  llvm.return
}
