// Calls of C functions in libraries, from a list that an engine prepared: the interpreter is not
// involved.
//
// Names that begin with a dollar sign are symbols, offsets and sizes of the native interface
// (rammer_mlir/programs/native_interface.py), filled in by call_list.py.

// Execute a call; return the bits of the result that indicate failure.
llvm.func internal @rammer_call(%call: !llvm.ptr) -> i64 {
  %zero = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  %count = llvm.mlir.constant($num_arguments : i64) : i64
  %values = llvm.alloca %count x i64 : (i64) -> !llvm.ptr
  %mask_at = llvm.getelementptr %call[$call_mask] : (!llvm.ptr) -> !llvm.ptr, i8
  %loaded_at = llvm.getelementptr %call[$call_loaded] : (!llvm.ptr) -> !llvm.ptr, i8
  %taken_at = llvm.getelementptr %call[$call_taken] : (!llvm.ptr) -> !llvm.ptr, i8
  %arguments = llvm.getelementptr %call[$call_arguments] : (!llvm.ptr) -> !llvm.ptr, i8
  %function = llvm.load %call : !llvm.ptr -> !llvm.ptr
  %mask = llvm.load %mask_at : !llvm.ptr -> i64
  %loaded = llvm.load %loaded_at : !llvm.ptr -> i64
  %taken = llvm.load %taken_at : !llvm.ptr -> i64
  llvm.br ^argument(%zero : i64)
^argument(%n: i64):
  %at = llvm.getelementptr %arguments[%n] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %given = llvm.load %at : !llvm.ptr -> i64
  %address = llvm.inttoptr %given : i64 to !llvm.ptr
  %loaded_bits = llvm.lshr %loaded, %n : i64
  %is_loaded = llvm.trunc %loaded_bits : i64 to i1
  %source = llvm.select %is_loaded, %address, %at : i1, !llvm.ptr
  %value = llvm.load %source : !llvm.ptr -> i64
  %value_at = llvm.getelementptr %values[%n] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  llvm.store %value, %value_at : i64, !llvm.ptr
  %taken_bits = llvm.lshr %taken, %n : i64
  %is_taken = llvm.trunc %taken_bits : i64 to i1
  llvm.cond_br %is_taken, ^take, ^next
^take:
  llvm.store %zero, %source : i64, !llvm.ptr
  llvm.br ^next
^next:
  %following = llvm.add %n, %one : i64
  %more = llvm.icmp "slt" %following, %count : i64
  llvm.cond_br %more, ^argument(%following : i64), ^call
^call:
  %at1 = llvm.getelementptr %values[1] : (!llvm.ptr) -> !llvm.ptr, i64
  %at2 = llvm.getelementptr %values[2] : (!llvm.ptr) -> !llvm.ptr, i64
  %at3 = llvm.getelementptr %values[3] : (!llvm.ptr) -> !llvm.ptr, i64
  %at4 = llvm.getelementptr %values[4] : (!llvm.ptr) -> !llvm.ptr, i64
  %at5 = llvm.getelementptr %values[5] : (!llvm.ptr) -> !llvm.ptr, i64
  %at6 = llvm.getelementptr %values[6] : (!llvm.ptr) -> !llvm.ptr, i64
  %at7 = llvm.getelementptr %values[7] : (!llvm.ptr) -> !llvm.ptr, i64
  %0 = llvm.load %values : !llvm.ptr -> i64
  %1 = llvm.load %at1 : !llvm.ptr -> i64
  %2 = llvm.load %at2 : !llvm.ptr -> i64
  %3 = llvm.load %at3 : !llvm.ptr -> i64
  %4 = llvm.load %at4 : !llvm.ptr -> i64
  %5 = llvm.load %at5 : !llvm.ptr -> i64
  %6 = llvm.load %at6 : !llvm.ptr -> i64
  %7 = llvm.load %at7 : !llvm.ptr -> i64
  %result = llvm.call %function(%0, %1, %2, %3, %4, %5, %6, %7) : !llvm.ptr, (i64, i64, i64, i64, i64, i64, i64, i64) -> i64
  %failed = llvm.and %result, %mask : i64
  llvm.return %failed : i64
}

// Execute calls until one fails; return its failure bits, else 0.
llvm.func internal @rammer_call_all(%calls: !llvm.ptr, %count: i64) -> i64 {
  %zero = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  llvm.br ^test(%zero : i64)
^test(%n: i64):
  %more = llvm.icmp "slt" %n, %count : i64
  llvm.cond_br %more, ^call, ^done(%zero : i64)
^call:
  %row = llvm.getelementptr %calls[%n] : (!llvm.ptr, i64) -> !llvm.ptr, !llvm.array<$call_bytes x i8>
  %failed = llvm.call @rammer_call(%row) : (!llvm.ptr) -> i64
  %is_fine = llvm.icmp "eq" %failed, %zero : i64
  %next = llvm.add %n, %one : i64
  llvm.cond_br %is_fine, ^test(%next : i64), ^done(%failed : i64)
^done(%result: i64):
  llvm.return %result : i64
}

// Bind the buffers whose addresses changed; return the failure bits of a failed call, else 0. A
// buffer that changes for the first time is copied from then on, if the list has memory for it.
llvm.func internal @rammer_bind_all(%rows: !llvm.ptr, %count: i64, %buffers: !llvm.ptr) -> i64 {
  %zero = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  llvm.br ^test(%zero : i64)
^test(%n: i64):
  %more = llvm.icmp "slt" %n, %count : i64
  llvm.cond_br %more, ^compare, ^done(%zero : i64)
^compare:
  %next = llvm.add %n, %one : i64
  %row = llvm.getelementptr %rows[%n] : (!llvm.ptr, i64) -> !llvm.ptr, !llvm.array<$bound_bytes x i8>
  %address_at = llvm.getelementptr %row[$bound_address] : (!llvm.ptr) -> !llvm.ptr, i8
  %memory_at = llvm.getelementptr %row[$bound_memory] : (!llvm.ptr) -> !llvm.ptr, i8
  %copied_at = llvm.getelementptr %row[$bound_is_copied] : (!llvm.ptr) -> !llvm.ptr, i8
  %number = llvm.load %row : !llvm.ptr -> i64
  %buffer_at = llvm.getelementptr %buffers[%number] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %buffer = llvm.load %buffer_at : !llvm.ptr -> i64
  %before = llvm.load %address_at : !llvm.ptr -> i64
  %copied = llvm.load %copied_at : !llvm.ptr -> i64
  %is_copied = llvm.icmp "ne" %copied, %zero : i64
  %is_same = llvm.icmp "eq" %buffer, %before : i64
  %is_bound = llvm.or %is_copied, %is_same : i1
  llvm.cond_br %is_bound, ^test(%next : i64), ^bind
^bind:
  %memory = llvm.load %memory_at : !llvm.ptr -> i64
  %has_memory = llvm.icmp "ne" %memory, %zero : i64
  %was_bound = llvm.icmp "ne" %before, %zero : i64
  %copy = llvm.and %has_memory, %was_bound : i1
  %address = llvm.select %copy, %memory, %buffer : i1, i64
  llvm.store %address, %address_at : i64, !llvm.ptr
  %count_at = llvm.getelementptr %row[$bound_num_calls] : (!llvm.ptr) -> !llvm.ptr, i8
  %calls_at = llvm.getelementptr %row[$bound_calls] : (!llvm.ptr) -> !llvm.ptr, i8
  %num_calls = llvm.load %count_at : !llvm.ptr -> i64
  %calls = llvm.load %calls_at : !llvm.ptr -> !llvm.ptr
  %failed = llvm.call @rammer_call_all(%calls, %num_calls) : (!llvm.ptr, i64) -> i64
  %is_fine = llvm.icmp "eq" %failed, %zero : i64
  llvm.cond_br %is_fine, ^keep, ^forget
^keep:
  %now_copied = llvm.zext %copy : i1 to i64
  llvm.store %now_copied, %copied_at : i64, !llvm.ptr
  llvm.br ^test(%next : i64)
^forget:
  llvm.store %zero, %address_at : i64, !llvm.ptr
  llvm.br ^done(%failed : i64)
^done(%result: i64):
  llvm.return %result : i64
}

// Copy inputs to the list's memory, or outputs from there.
llvm.func internal @rammer_copy_all(%rows: !llvm.ptr, %count: i64, %buffers: !llvm.ptr, %outputs: i64) {
  %zero = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  %are_outputs = llvm.icmp "ne" %outputs, %zero : i64
  llvm.br ^test(%zero : i64)
^test(%n: i64):
  %more = llvm.icmp "slt" %n, %count : i64
  llvm.cond_br %more, ^check, ^done
^check:
  %next = llvm.add %n, %one : i64
  %row = llvm.getelementptr %rows[%n] : (!llvm.ptr, i64) -> !llvm.ptr, !llvm.array<$bound_bytes x i8>
  %copied_at = llvm.getelementptr %row[$bound_is_copied] : (!llvm.ptr) -> !llvm.ptr, i8
  %output_at = llvm.getelementptr %row[$bound_is_output] : (!llvm.ptr) -> !llvm.ptr, i8
  %copied = llvm.load %copied_at : !llvm.ptr -> i64
  %output = llvm.load %output_at : !llvm.ptr -> i64
  %is_copied = llvm.icmp "ne" %copied, %zero : i64
  %is_wanted = llvm.icmp "eq" %output, %outputs : i64
  %is_due = llvm.and %is_copied, %is_wanted : i1
  llvm.cond_br %is_due, ^copy, ^test(%next : i64)
^copy:
  %memory_at = llvm.getelementptr %row[$bound_memory] : (!llvm.ptr) -> !llvm.ptr, i8
  %size_at = llvm.getelementptr %row[$bound_size] : (!llvm.ptr) -> !llvm.ptr, i8
  %number = llvm.load %row : !llvm.ptr -> i64
  %memory = llvm.load %memory_at : !llvm.ptr -> !llvm.ptr
  %size = llvm.load %size_at : !llvm.ptr -> i64
  %buffer_at = llvm.getelementptr %buffers[%number] : (!llvm.ptr, i64) -> !llvm.ptr, !llvm.ptr
  %buffer = llvm.load %buffer_at : !llvm.ptr -> !llvm.ptr
  %target = llvm.select %are_outputs, %buffer, %memory : i1, !llvm.ptr
  %source = llvm.select %are_outputs, %memory, %buffer : i1, !llvm.ptr
  "llvm.intr.memcpy"(%target, %source, %size) <{isVolatile = false}> : (!llvm.ptr, !llvm.ptr, i64) -> ()
  llvm.br ^test(%next : i64)
^done:
  llvm.return
}

// Run the list, which is the state.
llvm.func @$run_calls(%state: !llvm.ptr, %rtask: i64, %buffers: !llvm.ptr) -> i32 {
  %zero = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  %fine = llvm.mlir.constant(0 : i32) : i32
  %failed = llvm.mlir.constant(1 : i32) : i32
  %num_bound_at = llvm.getelementptr %state[$list_num_bound] : (!llvm.ptr) -> !llvm.ptr, i8
  %bound_at = llvm.getelementptr %state[$list_bound] : (!llvm.ptr) -> !llvm.ptr, i8
  %num_calls_at = llvm.getelementptr %state[$list_num_calls] : (!llvm.ptr) -> !llvm.ptr, i8
  %calls_at = llvm.getelementptr %state[$list_calls] : (!llvm.ptr) -> !llvm.ptr, i8
  %num_bound = llvm.load %num_bound_at : !llvm.ptr -> i64
  %bound = llvm.load %bound_at : !llvm.ptr -> !llvm.ptr
  %num_calls = llvm.load %num_calls_at : !llvm.ptr -> i64
  %calls = llvm.load %calls_at : !llvm.ptr -> !llvm.ptr
  %not_bound = llvm.call @rammer_bind_all(%bound, %num_bound, %buffers) : (!llvm.ptr, i64, !llvm.ptr) -> i64
  %is_bound = llvm.icmp "eq" %not_bound, %zero : i64
  llvm.cond_br %is_bound, ^compute, ^fail(%not_bound : i64)
^compute:
  llvm.call @rammer_copy_all(%bound, %num_bound, %buffers, %zero) : (!llvm.ptr, i64, !llvm.ptr, i64) -> ()
  %not_called = llvm.call @rammer_call_all(%calls, %num_calls) : (!llvm.ptr, i64) -> i64
  %is_called = llvm.icmp "eq" %not_called, %zero : i64
  llvm.cond_br %is_called, ^finish, ^fail(%not_called : i64)
^finish:
  llvm.call @rammer_copy_all(%bound, %num_bound, %buffers, %one) : (!llvm.ptr, i64, !llvm.ptr, i64) -> ()
  llvm.return %fine : i32
^fail(%status: i64):
  llvm.store %status, %state : i64, !llvm.ptr
  llvm.return %failed : i32
}
