// Virtual vEUs: any thread of a pool runs any vEU of a job, from one unmet barrier to the next
// (docs/program.md).
//
// The low half of a vEU's owner word is the last epoch that the vEU has ended; the high half is 1
// while a thread owns the vEU. In epoch e, `free` is e - 1 and `ended` is e. A thread that is late
// for an epoch finds other values, so that it cannot take a vEU any more.

// The state of a job's vEU v.
llvm.func internal @rammer_veu_state(%job: !llvm.ptr, %v: i64) -> !llvm.ptr {
  %bytes = llvm.mlir.constant($veu_bytes : i64) : i64
  %states_at = llvm.getelementptr %job[$job_veus] : (!llvm.ptr) -> !llvm.ptr, i8
  %states = llvm.load %states_at : !llvm.ptr -> !llvm.ptr
  %offset = llvm.mul %v, %bytes : i64
  %state = llvm.getelementptr %states[%offset] : (!llvm.ptr, i64) -> !llvm.ptr, i8
  llvm.return %state : !llvm.ptr
}

// Wait until the counter is at least the target: poll `spins` times, then suspend the vEU. Returns
// whether the target was reached. The two stores are for threads that search for a ready vEU; they
// store pointers to the host's memory only.
llvm.func internal @rammer_wait(%counter: !llvm.ptr, %target: i64, %spins: i64, %state: !llvm.ptr) -> i1 {
  %zero = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  %true = llvm.mlir.constant(true) : i1
  %false = llvm.mlir.constant(false) : i1
  llvm.br ^poll(%zero : i64)
^poll(%n: i64):
  %value = llvm.load %counter atomic acquire {alignment = 8 : i64} : !llvm.ptr -> i64
  %reached = llvm.icmp "sge" %value, %target : i64
  llvm.cond_br %reached, ^done, ^again
^again:
  %early = llvm.icmp "slt" %n, %spins : i64
  llvm.cond_br %early, ^spin, ^leave
^spin:
  llvm.call @rammer_pause() : () -> ()
  %next = llvm.add %n, %one : i64
  llvm.br ^poll(%next : i64)
^leave:
  %awaited_at = llvm.getelementptr %state[$veu_awaited] : (!llvm.ptr) -> !llvm.ptr, i8
  %target_at = llvm.getelementptr %state[$veu_target] : (!llvm.ptr) -> !llvm.ptr, i8
  llvm.store %counter, %awaited_at atomic monotonic {alignment = 8 : i64} : !llvm.ptr, !llvm.ptr
  llvm.store %target, %target_at atomic monotonic {alignment = 8 : i64} : i64, !llvm.ptr
  llvm.return %false : i1
^done:
  llvm.return %true : i1
}

// Whether no thread owns a vEU and its next record is ready. Only a hint: the vEU may change
// meanwhile, even between the loads, so a thread that takes the vEU checks again.
llvm.func internal @rammer_is_ready(%state: !llvm.ptr, %free: i64) -> i1 {
  %null = llvm.mlir.zero : !llvm.ptr
  %true = llvm.mlir.constant(true) : i1
  %false = llvm.mlir.constant(false) : i1
  %owner = llvm.load %state atomic monotonic {alignment = 8 : i64} : !llvm.ptr -> i64
  %is_free = llvm.icmp "eq" %owner, %free : i64
  llvm.cond_br %is_free, ^free, ^no
^free:
  %awaited_at = llvm.getelementptr %state[$veu_awaited] : (!llvm.ptr) -> !llvm.ptr, i8
  %target_at = llvm.getelementptr %state[$veu_target] : (!llvm.ptr) -> !llvm.ptr, i8
  %awaited = llvm.load %awaited_at atomic monotonic {alignment = 8 : i64} : !llvm.ptr -> !llvm.ptr
  %target = llvm.load %target_at atomic monotonic {alignment = 8 : i64} : !llvm.ptr -> i64
  %waits = llvm.icmp "ne" %awaited, %null : !llvm.ptr
  llvm.cond_br %waits, ^compare, ^yes
^compare:
  %value = llvm.load %awaited atomic monotonic {alignment = 8 : i64} : !llvm.ptr -> i64
  %reached = llvm.icmp "sge" %value, %target : i64
  llvm.return %reached : i1
^yes:
  llvm.return %true : i1
^no:
  llvm.return %false : i1
}

// Take a vEU if it is free, run it as far as its barriers allow, and release it. Returns whether it
// was taken. Only the owner of a vEU that has not ended reads the entry function and the context:
// until then the next launch cannot have begun. The entry function polls each barrier `spins` times.
llvm.func internal @rammer_try(%job: !llvm.ptr, %v: i64, %free: i64, %ended: i64, %spins: i64) -> i1 {
  %held_bit = llvm.mlir.constant($held : i64) : i64
  %zero = llvm.mlir.constant(0 : i64) : i64
  %true = llvm.mlir.constant(true) : i1
  %false = llvm.mlir.constant(false) : i1
  %state = llvm.call @rammer_veu_state(%job, %v) : (!llvm.ptr, i64) -> !llvm.ptr
  %held = llvm.or %free, %held_bit : i64
  %found = llvm.cmpxchg %state, %free, %held acquire monotonic {alignment = 8 : i64} : !llvm.ptr, i64
  %taken = llvm.extractvalue %found[1] : !llvm.struct<(i64, i1)>
  llvm.cond_br %taken, ^run, ^lost
^run:
  %entry_at = llvm.getelementptr %job[$job_entry] : (!llvm.ptr) -> !llvm.ptr, i8
  %context_at = llvm.getelementptr %job[$job_context] : (!llvm.ptr) -> !llvm.ptr, i8
  %mode_at = llvm.getelementptr %job[$job_float_mode] : (!llvm.ptr) -> !llvm.ptr, i8
  %entry = llvm.load %entry_at : !llvm.ptr -> !llvm.ptr
  %context = llvm.load %context_at : !llvm.ptr -> !llvm.ptr
  %mode = llvm.load %mode_at : !llvm.ptr -> i64
  %spins_at = llvm.getelementptr %context[$context_spins] : (!llvm.ptr) -> !llvm.ptr, i8
  llvm.store %spins, %spins_at atomic monotonic {alignment = 8 : i64} : i64, !llvm.ptr
  llvm.call @$set_float_mode(%mode) : (i64) -> ()
  %has_ended = llvm.call %entry(%v, %context, %state) : !llvm.ptr, (i64, !llvm.ptr, !llvm.ptr) -> i1
  llvm.cond_br %has_ended, ^end, ^leave
// The next epoch begins with the first record. It counts as ready, because all that the vEU waited
// for in this epoch has happened.
^end:
  %position_at = llvm.getelementptr %state[$veu_position] : (!llvm.ptr) -> !llvm.ptr, i8
  llvm.store %zero, %position_at : i64, !llvm.ptr
  llvm.store %ended, %state atomic release {alignment = 8 : i64} : i64, !llvm.ptr
  llvm.return %true : i1
^leave:
  llvm.store %free, %state atomic release {alignment = 8 : i64} : i64, !llvm.ptr
  llvm.return %true : i1
^lost:
  llvm.return %false : i1
}

// Run a job's vEUs until all have ended an epoch, beginning with the thread's own vEU, which it ran
// last. Returns whether all have ended: a thread that has found every vEU ended or owned for
// `polls` polls returns early, because the owners finish the rest. So does a thread of the pool
// (`me` is not 0) while more threads launch jobs than leave a core for it; where a core becomes
// free, the caller rings once more. The own vEU of another thread is taken only after it was found
// ready `patience` times, so that a thread that merely polls slowly keeps its vEU. A caller that is
// alone changes the vEU at once, and its barriers are polled once.
llvm.func internal @rammer_take_part(%pool: !llvm.ptr, %job: !llvm.ptr, %me: i64, %epoch: i32, %polls: i64, %was_rung: i1) -> i1 {
  %zero = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  %none = llvm.mlir.constant(-1 : i64) : i64
  %one32 = llvm.mlir.constant(1 : i32) : i32
  %true = llvm.mlir.constant(true) : i1
  %false = llvm.mlir.constant(false) : i1
  %count_at = llvm.getelementptr %job[$job_num_veus] : (!llvm.ptr) -> !llvm.ptr, i8
  %limit_at = llvm.getelementptr %pool[$pool_limit] : (!llvm.ptr) -> !llvm.ptr, i8
  %callers_at = llvm.getelementptr %pool[$pool_callers] : (!llvm.ptr) -> !llvm.ptr, i8
  %spins_at = llvm.getelementptr %pool[$pool_spins] : (!llvm.ptr) -> !llvm.ptr, i8
  %patience_at = llvm.getelementptr %pool[$pool_patience] : (!llvm.ptr) -> !llvm.ptr, i8
  %count = llvm.load %count_at : !llvm.ptr -> i64
  %limit = llvm.load %limit_at : !llvm.ptr -> i64
  %limit_1 = llvm.add %limit, %one : i64
  %spins = llvm.load %spins_at : !llvm.ptr -> i64
  %patience = llvm.load %patience_at : !llvm.ptr -> i64
  %waits_at = llvm.getelementptr %pool[$pool_wait_polls] : (!llvm.ptr) -> !llvm.ptr, i8
  %wait_polls = llvm.load %waits_at : !llvm.ptr -> i64
  %count_1 = llvm.sub %count, %one : i64
  %epoch_before = llvm.sub %epoch, %one32 : i32
  %free = llvm.zext %epoch_before : i32 to i64
  %ended = llvm.zext %epoch : i32 to i64
  %first = llvm.urem %me, %count : i64
  %is_helper = llvm.icmp "ne" %me, %zero : i64
  llvm.br ^own(%first, %zero, %none, %zero, %was_rung : i64, i64, i64, i64, i1)
// n counts polls since the thread ran a vEU; `candidate` was found ready `times` times.
// `threads` is the number of threads that the other callers leave for this job; `rung` tells
// whether the bell has rung since there were several.
^own(%mine: i64, %n: i64, %candidate: i64, %times: i64, %rung: i1):
  %callers = llvm.load %callers_at atomic monotonic {alignment = 8 : i64} : !llvm.ptr -> i64
  %threads = llvm.sub %limit_1, %callers : i64
  %is_surplus = llvm.icmp "sge" %me, %threads : i64
  %withdraws = llvm.and %is_helper, %is_surplus : i1
  %is_alone = llvm.icmp "sle" %threads, %one : i64
  %spins_now = llvm.select %is_alone, %zero, %wait_polls : i1, i64
  llvm.cond_br %withdraws, ^go, ^compare
^compare:
  %has_several = llvm.icmp "sgt" %count, %one : i64
  %may_ring = llvm.xor %rung, %true : i1
  %has_help = llvm.xor %is_alone, %true : i1
  %may_help = llvm.and %has_help, %has_several : i1
  %rings = llvm.and %may_ring, %may_help : i1
  llvm.cond_br %rings, ^ring, ^begin(%has_help : i1)
^ring:
  llvm.call @rammer_ring(%pool, %count_1, %threads) : (!llvm.ptr, i64, i64) -> ()
  llvm.br ^begin(%true : i1)
^begin(%rung_now: i1):
  %state = llvm.call @rammer_veu_state(%job, %mine) : (!llvm.ptr, i64) -> !llvm.ptr
  %ready = llvm.call @rammer_is_ready(%state, %free) : (!llvm.ptr, i64) -> i1
  llvm.cond_br %ready, ^take(%mine : i64), ^poll
^take(%v: i64):
  %taken = llvm.call @rammer_try(%job, %v, %free, %ended, %spins_now) : (!llvm.ptr, i64, i64, i64, i64) -> i1
  llvm.cond_br %taken, ^own(%v, %zero, %none, %zero, %rung_now : i64, i64, i64, i64, i1), ^poll
^poll:
  %n_next = llvm.add %n, %one : i64
  %owner = llvm.load %state atomic monotonic {alignment = 8 : i64} : !llvm.ptr -> i64
  %mine_epoch = llvm.trunc %owner : i64 to i32
  %mine_ended = llvm.icmp "ne" %mine_epoch, %epoch_before : i32
  %is_late = llvm.icmp "sge" %n, %spins : i64
  %late = llvm.or %is_late, %is_alone : i1
  %looks = llvm.or %mine_ended, %late : i1
  llvm.cond_br %looks, ^look(%mine, %zero, %true, %false, %none : i64, i64, i1, i1, i64), ^pause(%candidate, %times : i64, i64)
// Look at all vEUs once, beginning with the one after the thread's own.
^look(%at: i64, %looked: i64, %all_ended: i1, %any_free: i1, %found: i64):
  %at_next = llvm.add %at, %one : i64
  %wraps = llvm.icmp "eq" %at_next, %count : i64
  %other = llvm.select %wraps, %zero, %at_next : i1, i64
  %other_state = llvm.call @rammer_veu_state(%job, %other) : (!llvm.ptr, i64) -> !llvm.ptr
  %other_owner = llvm.load %other_state atomic acquire {alignment = 8 : i64} : !llvm.ptr -> i64
  %other_epoch = llvm.trunc %other_owner : i64 to i32
  %other_ended = llvm.icmp "ne" %other_epoch, %epoch_before : i32
  %other_free = llvm.icmp "eq" %other_owner, %free : i64
  %other_ready = llvm.call @rammer_is_ready(%other_state, %free) : (!llvm.ptr, i64) -> i1
  %is_first = llvm.icmp "eq" %found, %none : i64
  %is_found = llvm.and %is_first, %other_ready : i1
  %found_next = llvm.select %is_found, %other, %found : i1, i64
  %ended_next = llvm.and %all_ended, %other_ended : i1
  %free_next = llvm.or %any_free, %other_free : i1
  %looked_next = llvm.add %looked, %one : i64
  %more = llvm.icmp "slt" %looked_next, %count : i64
  llvm.cond_br %more, ^look(%other, %looked_next, %ended_next, %free_next, %found_next : i64, i64, i1, i1, i64), ^looked
^looked:
  llvm.cond_br %ended_next, ^all_ended, ^not_all
^all_ended:
  llvm.return %true : i1
^not_all:
  %has_found = llvm.icmp "ne" %found_next, %none : i64
  llvm.cond_br %has_found, ^found, ^not_found
// Helpers share themselves among the callers' jobs, each of which begins with its first vEUs.
^found:
  %is_candidate = llvm.icmp "eq" %found_next, %candidate : i64
  %times_more = llvm.add %times, %one : i64
  %times_next = llvm.select %is_candidate, %times_more, %one : i1, i64
  %helpers = llvm.sub %limit, %callers : i64
  %some_helpers = llvm.select %is_alone, %zero, %helpers : i1, i64
  %others = llvm.icmp "sgt" %callers, %one : i64
  %some_callers = llvm.select %others, %callers, %one : i1, i64
  %share = llvm.udiv %some_helpers, %some_callers : i64
  %has_thread = llvm.icmp "sle" %found_next, %share : i64
  %is_other = llvm.icmp "ne" %found_next, %first : i64
  %is_early = llvm.icmp "slt" %times_next, %patience : i64
  %is_others = llvm.and %has_thread, %is_other : i1
  %waits = llvm.and %is_others, %is_early : i1
  llvm.cond_br %waits, ^pause(%found_next, %times_next : i64, i64), ^take(%found_next : i64)
^not_found:
  %is_awake = llvm.icmp "slt" %n, %polls : i64
  %stays = llvm.or %is_awake, %free_next : i1
  llvm.cond_br %stays, ^stay, ^go
^go:
  llvm.return %false : i1
^stay:
  llvm.cond_br %late, ^give_way, ^pause(%none, %zero : i64, i64)
^give_way:
  llvm.call @$give_way() : () -> ()
  llvm.br ^own(%mine, %n_next, %none, %zero, %rung_now : i64, i64, i64, i64, i1)
^pause(%candidate_next: i64, %times_then: i64):
  llvm.call @rammer_pause() : () -> ()
  llvm.br ^own(%mine, %n_next, %candidate_next, %times_then, %rung_now : i64, i64, i64, i64, i1)
}
