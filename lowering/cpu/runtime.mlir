// The CPU runtime: persistent threads, the first of which is the caller's. veus.mlir distributes
// the vEUs over them.
//
// Names that begin with a dollar sign are symbols, offsets and sizes of the native interface
// (rammer_mlir/programs/native_interface.py), filled in by runtime.py. A pool is memory that the
// host owns, zeroed and aligned to cache lines; it begins with its epoch, a thread's part of it
// with the address of the pool, and a vEU's part with its owner word.

llvm.func @clock_gettime(i32, !llvm.ptr) -> i32
llvm.func @pthread_create(!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr) -> i32
llvm.func @pthread_join(i64, !llvm.ptr) -> i32
llvm.func @sched_yield() -> i32
llvm.func @syscall(i64, ...) -> i64

// Yield between two polls, after polling for long.
llvm.func internal @rammer_yield() {
  %ignored = llvm.call @sched_yield() : () -> i32
  llvm.return
}

// The monotonic clock, in nanoseconds.
llvm.func internal @rammer_nanoseconds() -> i64 {
  %one = llvm.mlir.constant(1 : i32) : i32
  %billion = llvm.mlir.constant(1000000000 : i64) : i64
  %time = llvm.alloca %one x !llvm.array<2 x i64> : (i32) -> !llvm.ptr
  %ignored = llvm.call @clock_gettime(%one, %time) : (i32, !llvm.ptr) -> i32
  %seconds = llvm.load %time : !llvm.ptr -> i64
  %rest_at = llvm.getelementptr %time[1] : (!llvm.ptr) -> !llvm.ptr, i64
  %rest = llvm.load %rest_at : !llvm.ptr -> i64
  %whole = llvm.mul %seconds, %billion : i64
  %now = llvm.add %whole, %rest : i64
  llvm.return %now : i64
}

// Sleep while the epoch has the given value (futex: wait, private).
llvm.func internal @rammer_sleep(%pool: !llvm.ptr, %seen: i32) {
  %one = llvm.mlir.constant(1 : i32) : i32
  %minus_one = llvm.mlir.constant(-1 : i32) : i32
  %number = llvm.mlir.constant($futex_syscall : i64) : i64
  %wait_private = llvm.mlir.constant(128 : i64) : i64
  %null = llvm.mlir.zero : !llvm.ptr
  %sleepers = llvm.getelementptr %pool[$pool_sleepers] : (!llvm.ptr) -> !llvm.ptr, i8
  %before = llvm.atomicrmw add %sleepers, %one seq_cst : !llvm.ptr, i32
  %ignored = llvm.call @syscall(%number, %pool, %wait_private, %seen, %null) vararg(!llvm.func<i64 (i64, ...)>) : (i64, !llvm.ptr, i64, i32, !llvm.ptr) -> i64
  %after = llvm.atomicrmw add %sleepers, %minus_one seq_cst : !llvm.ptr, i32
  llvm.return
}

// Begin a new epoch and wake the sleeping threads (futex: wake, private).
llvm.func internal @rammer_announce(%pool: !llvm.ptr) -> i32 {
  %one = llvm.mlir.constant(1 : i32) : i32
  %zero = llvm.mlir.constant(0 : i32) : i32
  %number = llvm.mlir.constant($futex_syscall : i64) : i64
  %wake_private = llvm.mlir.constant(129 : i64) : i64
  %everyone = llvm.mlir.constant(2147483647 : i32) : i32
  %sleepers = llvm.getelementptr %pool[$pool_sleepers] : (!llvm.ptr) -> !llvm.ptr, i8
  %old = llvm.atomicrmw add %pool, %one seq_cst : !llvm.ptr, i32
  %epoch = llvm.add %old, %one : i32
  %asleep = llvm.load %sleepers atomic seq_cst {alignment = 4 : i64} : !llvm.ptr -> i32
  %any = llvm.icmp "ne" %asleep, %zero : i32
  llvm.cond_br %any, ^wake, ^done
^wake:
  %ignored = llvm.call @syscall(%number, %pool, %wake_private, %everyone) vararg(!llvm.func<i64 (i64, ...)>) : (i64, !llvm.ptr, i64, i32) -> i64
  llvm.br ^done
^done:
  llvm.return %epoch : i32
}

// The loop of a pool's thread: wait for an epoch, take part in it, repeat. The thread sleeps while
// a run continues without it.
llvm.func internal @rammer_worker(%self: !llvm.ptr) -> !llvm.ptr {
  %zero32 = llvm.mlir.constant(0 : i32) : i32
  %zero = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  %null = llvm.mlir.zero : !llvm.ptr
  %pool = llvm.load %self : !llvm.ptr -> !llvm.ptr
  %first_at = llvm.getelementptr %self[$thread_first] : (!llvm.ptr) -> !llvm.ptr, i8
  %first = llvm.load %first_at : !llvm.ptr -> i64
  %stop_at = llvm.getelementptr %pool[$pool_stop] : (!llvm.ptr) -> !llvm.ptr, i8
  %spins_at = llvm.getelementptr %pool[$pool_spins] : (!llvm.ptr) -> !llvm.ptr, i8
  %spins = llvm.load %spins_at : !llvm.ptr -> i64
  %polls_at = llvm.getelementptr %pool[$pool_idle_polls] : (!llvm.ptr) -> !llvm.ptr, i8
  %polls = llvm.load %polls_at : !llvm.ptr -> i64
  llvm.br ^idle(%zero32, %zero : i32, i64)
^idle(%seen: i32, %n: i64):
  %epoch = llvm.load %pool atomic acquire {alignment = 4 : i64} : !llvm.ptr -> i32
  %new = llvm.icmp "ne" %epoch, %seen : i32
  llvm.cond_br %new, ^go, ^none
^none:
  %next = llvm.add %n, %one : i64
  %early = llvm.icmp "slt" %n, %spins : i64
  llvm.cond_br %early, ^spin, ^late
^late:
  %awake = llvm.icmp "slt" %n, %polls : i64
  llvm.cond_br %awake, ^yield, ^sleep(%seen : i32)
^spin:
  llvm.call @rammer_pause() : () -> ()
  llvm.br ^idle(%seen, %next : i32, i64)
^yield:
  llvm.call @$give_way() : () -> ()
  llvm.br ^idle(%seen, %next : i32, i64)
^sleep(%known: i32):
  llvm.call @rammer_sleep(%pool, %known) : (!llvm.ptr, i32) -> ()
  llvm.br ^idle(%seen, %zero : i32, i64)
^go:
  %stop = llvm.load %stop_at : !llvm.ptr -> i32
  %stopped = llvm.icmp "ne" %stop, %zero32 : i32
  llvm.cond_br %stopped, ^end, ^take_part
^take_part:
  %all_ended = llvm.call @rammer_take_part(%pool, %first, %epoch, %polls) : (!llvm.ptr, i64, i32, i64) -> i1
  llvm.cond_br %all_ended, ^idle(%epoch, %zero : i32, i64), ^sleep(%epoch : i32)
^end:
  llvm.return %null : !llvm.ptr
}

// Create the pool's threads. Returns 0, or the error of pthread_create and the threads made so far
// in the low and high half.
llvm.func @$start(%pool: !llvm.ptr) -> i64 {
  %one = llvm.mlir.constant(1 : i64) : i64
  %zero32 = llvm.mlir.constant(0 : i32) : i32
  %zero = llvm.mlir.constant(0 : i64) : i64
  %half = llvm.mlir.constant(32 : i64) : i64
  %null = llvm.mlir.zero : !llvm.ptr
  %worker = llvm.mlir.addressof @rammer_worker : !llvm.ptr
  %count_at = llvm.getelementptr %pool[$pool_num_threads] : (!llvm.ptr) -> !llvm.ptr, i8
  %count = llvm.load %count_at : !llvm.ptr -> i64
  %veus_at = llvm.getelementptr %pool[$pool_num_veus] : (!llvm.ptr) -> !llvm.ptr, i8
  %veus = llvm.load %veus_at : !llvm.ptr -> i64
  llvm.br ^next(%one : i64)
^next(%v: i64):
  %more = llvm.icmp "slt" %v, %count : i64
  llvm.cond_br %more, ^create, ^done
^create:
  %self = llvm.call @rammer_thread(%pool, %v) : (!llvm.ptr, i64) -> !llvm.ptr
  llvm.store %pool, %self : !llvm.ptr, !llvm.ptr
  %first = llvm.urem %v, %veus : i64
  %first_at = llvm.getelementptr %self[$thread_first] : (!llvm.ptr) -> !llvm.ptr, i8
  llvm.store %first, %first_at : i64, !llvm.ptr
  %handle = llvm.getelementptr %self[$thread_handle] : (!llvm.ptr) -> !llvm.ptr, i8
  %error = llvm.call @pthread_create(%handle, %null, %worker, %self) : (!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr) -> i32
  %failed = llvm.icmp "ne" %error, %zero32 : i32
  %following = llvm.add %v, %one : i64
  llvm.cond_br %failed, ^fail, ^next(%following : i64)
^fail:
  %wide = llvm.zext %error : i32 to i64
  %high = llvm.shl %v, %half : i64
  %both = llvm.or %wide, %high : i64
  llvm.return %both : i64
^done:
  llvm.return %zero : i64
}

// The part of the pool that belongs to thread v.
llvm.func internal @rammer_thread(%pool: !llvm.ptr, %v: i64) -> !llvm.ptr {
  %line = llvm.mlir.constant($thread_bytes : i64) : i64
  %first = llvm.mlir.constant($pool_bytes : i64) : i64
  %offset = llvm.mul %v, %line : i64
  %byte = llvm.add %offset, %first : i64
  %self = llvm.getelementptr %pool[%byte] : (!llvm.ptr, i64) -> !llvm.ptr, i8
  llvm.return %self : !llvm.ptr
}

// Execute an entry function on all vEUs and return when all have ended. All threads compute in the
// caller's floating-point mode.
llvm.func @$launch(%pool: !llvm.ptr, %entry: !llvm.ptr, %context: !llvm.ptr) {
  %zero = llvm.mlir.constant(0 : i64) : i64
  %without_end = llvm.mlir.constant(9223372036854775807 : i64) : i64
  %entry_at = llvm.getelementptr %pool[$pool_entry] : (!llvm.ptr) -> !llvm.ptr, i8
  %context_at = llvm.getelementptr %pool[$pool_context] : (!llvm.ptr) -> !llvm.ptr, i8
  %mode_at = llvm.getelementptr %pool[$pool_float_mode] : (!llvm.ptr) -> !llvm.ptr, i8
  %mode = llvm.call @rammer_float_mode() : () -> i64
  llvm.store %entry, %entry_at : !llvm.ptr, !llvm.ptr
  llvm.store %context, %context_at : !llvm.ptr, !llvm.ptr
  llvm.store %mode, %mode_at : i64, !llvm.ptr
  %epoch = llvm.call @rammer_announce(%pool) : (!llvm.ptr) -> i32
  %all_ended = llvm.call @rammer_take_part(%pool, %zero, %epoch, %without_end) : (!llvm.ptr, i64, i32, i64) -> i1
  llvm.return
}

// Launch repeatedly, advancing the pointers, until the steps are done or the condition's byte is
// zero. Returns the number of launches.
llvm.func @$repeat(%pool: !llvm.ptr, %entry: !llvm.ptr, %context: !llvm.ptr, %repetition: !llvm.ptr) -> i64 {
  %zero = llvm.mlir.constant(0 : i64) : i64
  %zero8 = llvm.mlir.constant(0 : i8) : i8
  %one = llvm.mlir.constant(1 : i64) : i64
  %null = llvm.mlir.zero : !llvm.ptr
  %pointers_at = llvm.getelementptr %context[$context_pointers] : (!llvm.ptr) -> !llvm.ptr, i8
  %pointers = llvm.load %pointers_at : !llvm.ptr -> !llvm.ptr
  %run_at = llvm.getelementptr %context[$context_run] : (!llvm.ptr) -> !llvm.ptr, i8
  %steps_at = llvm.getelementptr %repetition[$repetition_steps] : (!llvm.ptr) -> !llvm.ptr, i8
  %steps = llvm.load %steps_at : !llvm.ptr -> i64
  %condition_at = llvm.getelementptr %repetition[$repetition_condition] : (!llvm.ptr) -> !llvm.ptr, i8
  %condition = llvm.load %condition_at : !llvm.ptr -> !llvm.ptr
  %conditional = llvm.icmp "ne" %condition, %null : !llvm.ptr
  %count_at = llvm.getelementptr %repetition[$repetition_num_moves] : (!llvm.ptr) -> !llvm.ptr, i8
  %count = llvm.load %count_at : !llvm.ptr -> i64
  %moves_at = llvm.getelementptr %repetition[$repetition_moves] : (!llvm.ptr) -> !llvm.ptr, i8
  %moves = llvm.load %moves_at : !llvm.ptr -> !llvm.ptr
  llvm.br ^step(%zero : i64)
^step(%k: i64):
  %more = llvm.icmp "slt" %k, %steps : i64
  llvm.cond_br %more, ^move(%zero : i64), ^done(%k : i64)
^move(%m: i64):
  %left = llvm.icmp "slt" %m, %count : i64
  llvm.cond_br %left, ^point, ^run
^point:
  %bytes = llvm.mlir.constant($move_bytes : i64) : i64
  %offset = llvm.mul %m, %bytes : i64
  %move = llvm.getelementptr %moves[%offset] : (!llvm.ptr, i64) -> !llvm.ptr, i8
  %number_at = llvm.getelementptr %move[$move_pointer] : (!llvm.ptr) -> !llvm.ptr, i8
  %number = llvm.load %number_at : !llvm.ptr -> i64
  %even_at = llvm.getelementptr %move[$move_even] : (!llvm.ptr) -> !llvm.ptr, i8
  %odd_at = llvm.getelementptr %move[$move_odd] : (!llvm.ptr) -> !llvm.ptr, i8
  %even = llvm.load %even_at : !llvm.ptr -> i64
  %odd = llvm.load %odd_at : !llvm.ptr -> i64
  %parity = llvm.and %k, %one : i64
  %is_odd = llvm.icmp "ne" %parity, %zero : i64
  %base = llvm.select %is_odd, %odd, %even : i1, i64
  %stride_at = llvm.getelementptr %move[$move_stride] : (!llvm.ptr) -> !llvm.ptr, i8
  %stride = llvm.load %stride_at : !llvm.ptr -> i64
  %moved = llvm.mul %stride, %k : i64
  %address = llvm.add %base, %moved : i64
  %pointer = llvm.getelementptr %pointers[%number] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  llvm.store %address, %pointer : i64, !llvm.ptr
  %following = llvm.add %m, %one : i64
  llvm.br ^move(%following : i64)
^run:
  %before = llvm.load %run_at : !llvm.ptr -> i64
  %run = llvm.add %before, %one : i64
  llvm.store %run, %run_at : i64, !llvm.ptr
  llvm.call @$launch(%pool, %entry, %context) : (!llvm.ptr, !llvm.ptr, !llvm.ptr) -> ()
  %taken = llvm.add %k, %one : i64
  llvm.cond_br %conditional, ^ask, ^step(%taken : i64)
^ask:
  %value = llvm.load %condition : !llvm.ptr -> i8
  %goes_on = llvm.icmp "ne" %value, %zero8 : i8
  llvm.cond_br %goes_on, ^step(%taken : i64), ^done(%taken : i64)
^done(%total: i64):
  llvm.return %total : i64
}

// End the first `count` threads and wait until they have ended.
llvm.func @$stop(%pool: !llvm.ptr, %count: i64) {
  %one32 = llvm.mlir.constant(1 : i32) : i32
  %one = llvm.mlir.constant(1 : i64) : i64
  %null = llvm.mlir.zero : !llvm.ptr
  %stop_at = llvm.getelementptr %pool[$pool_stop] : (!llvm.ptr) -> !llvm.ptr, i8
  llvm.store %one32, %stop_at : i32, !llvm.ptr
  %epoch = llvm.call @rammer_announce(%pool) : (!llvm.ptr) -> i32
  llvm.br ^next(%one : i64)
^next(%v: i64):
  %more = llvm.icmp "slt" %v, %count : i64
  llvm.cond_br %more, ^join, ^done
^join:
  %self = llvm.call @rammer_thread(%pool, %v) : (!llvm.ptr, i64) -> !llvm.ptr
  %handle_at = llvm.getelementptr %self[$thread_handle] : (!llvm.ptr) -> !llvm.ptr, i8
  %handle = llvm.load %handle_at : !llvm.ptr -> i64
  %ignored = llvm.call @pthread_join(%handle, %null) : (i64, !llvm.ptr) -> i32
  %following = llvm.add %v, %one : i64
  llvm.br ^next(%following : i64)
^done:
  llvm.return
}
