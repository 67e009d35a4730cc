// The CPU runtime: persistent threads, which help the threads that launch programs. veus.mlir
// distributes the vEUs of a launch over them.
//
// Names that begin with a dollar sign are symbols, offsets and sizes of the native interface
// (rammer_mlir/programs/native_interface.py), filled in by runtime.py. A pool and its jobs are
// memory that the host owns, zeroed and aligned to cache lines; a pool begins with its bell, a job
// with its epoch, a thread's part of the pool with the address of the pool, and a vEU's part of a
// job with its owner word. A job's memory stays valid as long as the pool has threads.

llvm.func @clock_gettime(i32, !llvm.ptr) -> i32
llvm.func @pthread_attr_init(!llvm.ptr) -> i32
llvm.func @pthread_attr_setstacksize(!llvm.ptr, i64) -> i32
llvm.func @pthread_attr_destroy(!llvm.ptr) -> i32
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

// A set that has the threads of numbers below the given one, as bits of a futex. All threads from
// number 31 on share a bit.
llvm.func internal @rammer_threads_below(%number: i64) -> i64 {
  %one = llvm.mlir.constant(1 : i64) : i64
  %last = llvm.mlir.constant(32 : i64) : i64
  %few = llvm.icmp "slt" %number, %last : i64
  %bits = llvm.select %few, %number, %last : i1, i64
  %power = llvm.shl %one, %bits : i64
  %set = llvm.sub %power, %one : i64
  llvm.return %set : i64
}

// Let thread `me` sleep while the bell has the given value (futex: wait for a bit, private).
llvm.func internal @rammer_sleep(%pool: !llvm.ptr, %me: i64, %seen: i32) {
  %one = llvm.mlir.constant(1 : i32) : i32
  %minus_one = llvm.mlir.constant(-1 : i32) : i32
  %number = llvm.mlir.constant($futex_syscall : i64) : i64
  %wait_bits_private = llvm.mlir.constant(137 : i64) : i64
  %null = llvm.mlir.zero : !llvm.ptr
  %one64 = llvm.mlir.constant(1 : i64) : i64
  %last = llvm.mlir.constant(31 : i64) : i64
  %has_own_bit = llvm.icmp "slt" %me, %last : i64
  %place = llvm.select %has_own_bit, %me, %last : i1, i64
  %bit = llvm.shl %one64, %place : i64
  %sleepers = llvm.getelementptr %pool[$pool_sleepers] : (!llvm.ptr) -> !llvm.ptr, i8
  %before = llvm.atomicrmw add %sleepers, %one seq_cst : !llvm.ptr, i32
  %ignored = llvm.call @syscall(%number, %pool, %wait_bits_private, %seen, %null, %null, %bit) vararg(!llvm.func<i64 (i64, ...)>) : (i64, !llvm.ptr, i64, i32, !llvm.ptr, !llvm.ptr, i64) -> i64
  %after = llvm.atomicrmw add %sleepers, %minus_one seq_cst : !llvm.ptr, i32
  llvm.return
}

// Ring the bell: change it, and wake up to `count` sleeping threads of numbers below `limit`
// (futex: wake by bits, private).
llvm.func internal @rammer_ring(%pool: !llvm.ptr, %count: i64, %limit: i64) {
  %one = llvm.mlir.constant(1 : i32) : i32
  %zero = llvm.mlir.constant(0 : i32) : i32
  %number = llvm.mlir.constant($futex_syscall : i64) : i64
  %wake_bits_private = llvm.mlir.constant(138 : i64) : i64
  %null = llvm.mlir.zero : !llvm.ptr
  %sleepers = llvm.getelementptr %pool[$pool_sleepers] : (!llvm.ptr) -> !llvm.ptr, i8
  %old = llvm.atomicrmw add %pool, %one seq_cst : !llvm.ptr, i32
  %asleep = llvm.load %sleepers atomic seq_cst {alignment = 4 : i64} : !llvm.ptr -> i32
  %any = llvm.icmp "ne" %asleep, %zero : i32
  llvm.cond_br %any, ^wake, ^done
^wake:
  %set = llvm.call @rammer_threads_below(%limit) : (i64) -> i64
  %ignored = llvm.call @syscall(%number, %pool, %wake_bits_private, %count, %null, %null, %set) vararg(!llvm.func<i64 (i64, ...)>) : (i64, !llvm.ptr, i64, i64, !llvm.ptr, !llvm.ptr, i64) -> i64
  llvm.br ^done
^done:
  llvm.return
}

// The place of number p in the pool's table of jobs that threads may join.
llvm.func internal @rammer_place(%pool: !llvm.ptr, %p: i64) -> !llvm.ptr {
  %table_at = llvm.getelementptr %pool[$pool_places] : (!llvm.ptr) -> !llvm.ptr, i8
  %table = llvm.load %table_at : !llvm.ptr -> !llvm.ptr
  %place = llvm.getelementptr %table[%p] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  llvm.return %place : !llvm.ptr
}

// Join the jobs in the table, one after another, beginning at the place of the thread's number, so
// that threads begin with different jobs. Returns whether all their vEUs have ended.
llvm.func internal @rammer_join(%pool: !llvm.ptr, %me: i64, %polls: i64) -> i1 {
  %zero = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  %null = llvm.mlir.zero : !llvm.ptr
  %true = llvm.mlir.constant(true) : i1
  %limit_at = llvm.getelementptr %pool[$pool_limit] : (!llvm.ptr) -> !llvm.ptr, i8
  %limit = llvm.load %limit_at : !llvm.ptr -> i64
  llvm.br ^next(%zero, %true : i64, i1)
^next(%p: i64, %all_ended: i1):
  %more = llvm.icmp "slt" %p, %limit : i64
  llvm.cond_br %more, ^ask, ^done
^ask:
  %following = llvm.add %p, %one : i64
  %distance = llvm.add %p, %me : i64
  %number = llvm.urem %distance, %limit : i64
  %place = llvm.call @rammer_place(%pool, %number) : (!llvm.ptr, i64) -> !llvm.ptr
  %job = llvm.load %place atomic acquire {alignment = 8 : i64} : !llvm.ptr -> !llvm.ptr
  %has_job = llvm.icmp "ne" %job, %null : !llvm.ptr
  llvm.cond_br %has_job, ^job, ^next(%following, %all_ended : i64, i1)
^job:
  %epoch = llvm.load %job atomic acquire {alignment = 4 : i64} : !llvm.ptr -> i32
  %has_ended = llvm.call @rammer_take_part(%pool, %job, %me, %epoch, %polls, %true) : (!llvm.ptr, !llvm.ptr, i64, i32, i64, i1) -> i1
  %ended_next = llvm.and %all_ended, %has_ended : i1
  llvm.br ^next(%following, %ended_next : i64, i1)
^done:
  llvm.return %all_ended : i1
}

// The loop of a pool's thread: wait for the bell, join jobs, repeat. The thread sleeps while jobs
// continue without it.
llvm.func internal @rammer_worker(%self: !llvm.ptr) -> !llvm.ptr {
  %zero32 = llvm.mlir.constant(0 : i32) : i32
  %zero = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  %null = llvm.mlir.zero : !llvm.ptr
  %pool = llvm.load %self : !llvm.ptr -> !llvm.ptr
  %number_at = llvm.getelementptr %self[$thread_number] : (!llvm.ptr) -> !llvm.ptr, i8
  %me = llvm.load %number_at : !llvm.ptr -> i64
  %stop_at = llvm.getelementptr %pool[$pool_stop] : (!llvm.ptr) -> !llvm.ptr, i8
  %spins_at = llvm.getelementptr %pool[$pool_spins] : (!llvm.ptr) -> !llvm.ptr, i8
  %spins = llvm.load %spins_at : !llvm.ptr -> i64
  %polls_at = llvm.getelementptr %pool[$pool_idle_polls] : (!llvm.ptr) -> !llvm.ptr, i8
  %polls = llvm.load %polls_at : !llvm.ptr -> i64
  llvm.br ^idle(%zero32, %zero : i32, i64)
^idle(%seen: i32, %n: i64):
  %bell = llvm.load %pool atomic acquire {alignment = 4 : i64} : !llvm.ptr -> i32
  %new = llvm.icmp "ne" %bell, %seen : i32
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
  llvm.call @rammer_sleep(%pool, %me, %known) : (!llvm.ptr, i64, i32) -> ()
  llvm.br ^idle(%known, %zero : i32, i64)
^go:
  %stop = llvm.load %stop_at : !llvm.ptr -> i32
  %stopped = llvm.icmp "ne" %stop, %zero32 : i32
  llvm.cond_br %stopped, ^end, ^join
// The bell was read before the table, so that a job that comes later rings once more.
^join:
  %all_ended = llvm.call @rammer_join(%pool, %me, %polls) : (!llvm.ptr, i64, i64) -> i1
  llvm.cond_br %all_ended, ^idle(%bell, %zero : i32, i64), ^sleep(%bell : i32)
^end:
  llvm.return %null : !llvm.ptr
}

// Create the pool's threads of numbers `from` to `limit` - 1. Returns 0, or the error of
// pthread_create and the number of the thread that was not made in the low and high half.
llvm.func @$start(%pool: !llvm.ptr, %from: i64, %limit: i64) -> i64 {
  %zero32 = llvm.mlir.constant(0 : i32) : i32
  %zero = llvm.mlir.constant(0 : i64) : i64
  %half = llvm.mlir.constant(32 : i64) : i64
  %worker = llvm.mlir.addressof @rammer_worker : !llvm.ptr
  // The default stack follows the user's limit, and may be too small for the temporaries.
  %one = llvm.mlir.constant(1 : i64) : i64
  %stack = llvm.mlir.constant(8388608 : i64) : i64
  %attributes = llvm.alloca %one x !llvm.array<16 x i64> : (i64) -> !llvm.ptr
  %initialized = llvm.call @pthread_attr_init(%attributes) : (!llvm.ptr) -> i32
  %sized = llvm.call @pthread_attr_setstacksize(%attributes, %stack) : (!llvm.ptr, i64) -> i32
  llvm.br ^next(%from : i64)
^next(%t: i64):
  %more = llvm.icmp "slt" %t, %limit : i64
  llvm.cond_br %more, ^create, ^done
^create:
  %self = llvm.call @rammer_thread(%pool, %t) : (!llvm.ptr, i64) -> !llvm.ptr
  llvm.store %pool, %self : !llvm.ptr, !llvm.ptr
  %number_at = llvm.getelementptr %self[$thread_number] : (!llvm.ptr) -> !llvm.ptr, i8
  llvm.store %t, %number_at : i64, !llvm.ptr
  %handle = llvm.getelementptr %self[$thread_handle] : (!llvm.ptr) -> !llvm.ptr, i8
  %error = llvm.call @pthread_create(%handle, %attributes, %worker, %self) : (!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr) -> i32
  %failed = llvm.icmp "ne" %error, %zero32 : i32
  %following = llvm.add %t, %one : i64
  llvm.cond_br %failed, ^fail, ^next(%following : i64)
^fail:
  %wide = llvm.zext %error : i32 to i64
  %high = llvm.shl %t, %half : i64
  %both = llvm.or %wide, %high : i64
  llvm.br ^end(%both : i64)
^done:
  llvm.br ^end(%zero : i64)
^end(%result: i64):
  %destroyed = llvm.call @pthread_attr_destroy(%attributes) : (!llvm.ptr) -> i32
  llvm.return %result : i64
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

// Execute an entry function on all vEUs of a job and return when all have ended. All threads
// compute in the caller's floating-point mode. Several threads may launch at the same time, each
// with a job of its own; each of them replaces a thread of the pool.
llvm.func @$launch(%job: !llvm.ptr, %entry: !llvm.ptr) {
  %zero = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  %minus_one = llvm.mlir.constant(-1 : i64) : i64
  %one32 = llvm.mlir.constant(1 : i32) : i32
  %false = llvm.mlir.constant(false) : i1
  %null = llvm.mlir.zero : !llvm.ptr
  %without_end = llvm.mlir.constant(9223372036854775807 : i64) : i64
  %entry_at = llvm.getelementptr %job[$job_entry] : (!llvm.ptr) -> !llvm.ptr, i8
  %mode_at = llvm.getelementptr %job[$job_float_mode] : (!llvm.ptr) -> !llvm.ptr, i8
  %pool_at = llvm.getelementptr %job[$job_pool] : (!llvm.ptr) -> !llvm.ptr, i8
  %veus_at = llvm.getelementptr %job[$job_num_veus] : (!llvm.ptr) -> !llvm.ptr, i8
  %pool = llvm.load %pool_at : !llvm.ptr -> !llvm.ptr
  %callers_at = llvm.getelementptr %pool[$pool_callers] : (!llvm.ptr) -> !llvm.ptr, i8
  %limit_at = llvm.getelementptr %pool[$pool_limit] : (!llvm.ptr) -> !llvm.ptr, i8
  %mode = llvm.call @$float_mode() : () -> i64
  llvm.store %entry, %entry_at : !llvm.ptr, !llvm.ptr
  llvm.store %mode, %mode_at : i64, !llvm.ptr
  %limit = llvm.load %limit_at : !llvm.ptr -> i64
  %veus = llvm.load %veus_at : !llvm.ptr -> i64
  %before = llvm.atomicrmw add %callers_at, %one monotonic : !llvm.ptr, i64
  %old = llvm.load %job : !llvm.ptr -> i32
  %epoch = llvm.add %old, %one32 : i32
  llvm.store %epoch, %job atomic release {alignment = 4 : i64} : i32, !llvm.ptr
  %has_threads = llvm.icmp "sgt" %limit, %one : i64
  %has_several = llvm.icmp "sgt" %veus, %one : i64
  %may_help = llvm.and %has_threads, %has_several : i1
  llvm.cond_br %may_help, ^next(%zero : i64), ^alone
^alone:
  %alone_ended = llvm.call @rammer_take_part(%pool, %job, %zero, %epoch, %without_end, %false) : (!llvm.ptr, !llvm.ptr, i64, i32, i64, i1) -> i1
  llvm.br ^done
// Enter the job into the table, in the first place that is empty. Without such a place, as when
// more threads launch than the host admits, nobody helps.
^next(%p: i64):
  %more = llvm.icmp "slt" %p, %limit : i64
  llvm.cond_br %more, ^enter, ^alone
^enter:
  %place = llvm.call @rammer_place(%pool, %p) : (!llvm.ptr, i64) -> !llvm.ptr
  %found = llvm.cmpxchg %place, %null, %job release monotonic {alignment = 8 : i64} : !llvm.ptr, !llvm.ptr
  %entered = llvm.extractvalue %found[1] : !llvm.struct<(ptr, i1)>
  %following = llvm.add %p, %one : i64
  llvm.cond_br %entered, ^helped, ^next(%following : i64)
^helped:
  %all_ended = llvm.call @rammer_take_part(%pool, %job, %zero, %epoch, %without_end, %false) : (!llvm.ptr, !llvm.ptr, i64, i32, i64, i1) -> i1
  llvm.store %null, %place atomic release {alignment = 8 : i64} : !llvm.ptr, !llvm.ptr
  llvm.br ^done
^done:
  %after = llvm.atomicrmw add %callers_at, %minus_one monotonic : !llvm.ptr, i64
  llvm.return
}

// Launch repeatedly, advancing the pointers, until the steps are done or the condition's byte is
// zero. Returns the number of launches.
llvm.func @$repeat(%job: !llvm.ptr, %entry: !llvm.ptr, %repetition: !llvm.ptr) -> i64 {
  %zero = llvm.mlir.constant(0 : i64) : i64
  %zero8 = llvm.mlir.constant(0 : i8) : i8
  %one = llvm.mlir.constant(1 : i64) : i64
  %null = llvm.mlir.zero : !llvm.ptr
  %context_at = llvm.getelementptr %job[$job_context] : (!llvm.ptr) -> !llvm.ptr, i8
  %context = llvm.load %context_at : !llvm.ptr -> !llvm.ptr
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
  llvm.call @$launch(%job, %entry) : (!llvm.ptr, !llvm.ptr) -> ()
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
  %everyone = llvm.mlir.constant(2147483647 : i64) : i64
  llvm.call @rammer_ring(%pool, %everyone, %everyone) : (!llvm.ptr, i64, i64) -> ()
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
