"""Code that executes vEUs: a dispatch loop over the task table, or straight-line code.

Both forms call the same rKernels and use the same step counters. The context that they get is an
array of 64-bit words, in the order of ``CONTEXT``. A vEU's counter holds the rTasks that it has
completed in all runs so far, so nothing is cleared between runs; its only writer publishes with
release stores, and waiting vEUs poll with acquire loads. It publishes every rTask, awaited or not,
because dispatch, call and store together take some 3 ns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rammer_mlir.programs.cpu_table import BARRIER, END, RUN_WORDS, pointer_table
from rammer_mlir.programs.records import (
    BarrierRecord,
    KernelSymbol,
    Program,
    Record,
    RunRecord,
    Slot,
)

CONTEXT = (
    "pointers", "steps", "run", "traces", "spins", "records", "arguments", "starts", "totals",
)  # fmt: skip
"""Words of the context: the pointer table, the step counters (one cache line each), the number of
the run, per-vEU trace buffers, looks before a waiting vEU gives way, and the task table."""

STRAIGHT_LINE_LIMIT = 64
"""Records up to which a program becomes straight-line code.

Measured: a record takes some 4 ms to compile and saves a few nanoseconds of each run, so longer
programs would pay a second of compile time for a microsecond.
"""

_LINE = 64


def pause_function(is_x86: bool) -> str:
    """Return the function that a spinning thread calls between two looks."""
    hint = '  llvm.call_intrinsic "llvm.x86.sse2.pause"() : () -> ()\n' if is_x86 else ""
    return f"llvm.func internal @rammer_pause() {{\n{hint}  llvm.return\n}}\n"


def dispatch_loop(name: str, kernels: Sequence[KernelSymbol], traced: bool) -> str:
    """Return the function that executes one vEU's records of the task table.

    With ``traced``, it writes the start and end of every record, in nanoseconds.
    """
    cases = ", ".join(f"{index}: ^kernel{index}" for index in range(len(kernels)))
    blocks = "".join(_kernel_case(index, kernel) for index, kernel in enumerate(kernels))
    stamp_start = _stamp("begin", 0) if traced else ""
    stamp_end = _stamp("end", 8) if traced else ""
    traces = _load("traces") + _trace_buffer() if traced else ""
    return f"""
llvm.func @{name}(%veu: i64, %context: !llvm.ptr) {{
{_prologue()}{_load("records")}{_load("arguments")}{_load("starts")}{traces}
  %start_at = llvm.getelementptr %starts[%veu] : (!llvm.ptr, i64) -> !llvm.ptr, i32
  %start = llvm.load %start_at : !llvm.ptr -> i32
  %pc0 = llvm.sext %start : i32 to i64
  llvm.br ^fetch(%pc0, %base, %zero : i64, i64, i64)
^fetch(%pc: i64, %done: i64, %record: i64):
  %record_at = llvm.getelementptr %records[%pc] : (!llvm.ptr, i64) -> !llvm.ptr, i32
  %kind = llvm.load %record_at : !llvm.ptr -> i32
  %is_end = llvm.icmp "eq" %kind, %end_kind : i32
  llvm.cond_br %is_end, ^finish, ^begin
^begin:
{stamp_start}  %is_barrier = llvm.icmp "eq" %kind, %barrier_kind : i32
  %second_at = llvm.getelementptr %record_at[1] : (!llvm.ptr) -> !llvm.ptr, i32
  %second32 = llvm.load %second_at : !llvm.ptr -> i32
  %second = llvm.sext %second32 : i32 to i64
  llvm.cond_br %is_barrier, ^barrier, ^run
^barrier:
  %pairs = llvm.getelementptr %record_at[2] : (!llvm.ptr) -> !llvm.ptr, i32
  llvm.br ^pair(%zero : i64)
^pair(%n: i64):
  %more = llvm.icmp "slt" %n, %second : i64
  llvm.cond_br %more, ^await, ^awaited
^await:
  %first_of_pair = llvm.mul %n, %two : i64
  %other_at = llvm.getelementptr %pairs[%first_of_pair] : (!llvm.ptr, i64) -> !llvm.ptr, i32
  %other32 = llvm.load %other_at : !llvm.ptr -> i32
  %other = llvm.sext %other32 : i32 to i64
  %wanted_at = llvm.getelementptr %other_at[1] : (!llvm.ptr) -> !llvm.ptr, i32
  %wanted32 = llvm.load %wanted_at : !llvm.ptr -> i32
  %wanted = llvm.sext %wanted32 : i32 to i64
  %total_at = llvm.getelementptr %totals[%other] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %total = llvm.load %total_at : !llvm.ptr -> i64
  %before = llvm.mul %total, %run_number : i64
  %target = llvm.add %before, %wanted : i64
  %counter_index = llvm.mul %other, %line : i64
  %counter = llvm.getelementptr %steps[%counter_index] : (!llvm.ptr, i64) -> !llvm.ptr, i8
  llvm.call @rammer_wait(%counter, %target, %spins) : (!llvm.ptr, i64, i64) -> ()
  %n_next = llvm.add %n, %one : i64
  llvm.br ^pair(%n_next : i64)
^awaited:
  %pair_words = llvm.mul %second, %two : i64
  %barrier_words = llvm.add %pair_words, %two : i64
  %after_barrier = llvm.add %pc, %barrier_words : i64
  llvm.br ^next(%after_barrier, %done : i64, i64)
^run:
  %count_at = llvm.getelementptr %record_at[2] : (!llvm.ptr) -> !llvm.ptr, i32
  %count32 = llvm.load %count_at : !llvm.ptr -> i32
  %count = llvm.sext %count32 : i32 to i64
  %limit = llvm.add %second, %count : i64
  %argument_at = llvm.getelementptr %record_at[3] : (!llvm.ptr) -> !llvm.ptr, i32
  %argument32 = llvm.load %argument_at : !llvm.ptr -> i32
  %argument = llvm.sext %argument32 : i32 to i64
  %mine = llvm.getelementptr %arguments[%argument] : (!llvm.ptr, i64) -> !llvm.ptr, i32
  %after_run = llvm.add %pc, %run_words : i64
  llvm.switch %kind : i32, ^finish [{cases}]
{blocks}^next(%pc_next: i64, %done_next: i64):
{stamp_end}  %record_next = llvm.add %record, %one : i64
  llvm.br ^fetch(%pc_next, %done_next, %record_next : i64, i64, i64)
^finish:
  llvm.return
}}
"""


def straight_line(name: str, program: Program) -> str:
    """Return the function that executes each vEU by code of its own, with constant operands."""
    (launch,) = program.launches
    number = {slot: n for n, slot in enumerate(pointer_table(program))}
    veus = range(len(launch.veus))
    cases = ", ".join(f"{veu}: ^veu{veu}" for veu in veus)
    bodies = "".join(_straight_veu(veu, program, launch.veus[veu], number) for veu in veus)
    return f"""
llvm.func @{name}(%veu: i64, %context: !llvm.ptr) {{
{_prologue()}
  llvm.switch %veu : i64, ^finish [{cases}]
{bodies}^finish:
  llvm.return
}}
"""


def _prologue() -> str:
    return f"""  %zero = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  %two = llvm.mlir.constant(2 : i64) : i64
  %run_words = llvm.mlir.constant({RUN_WORDS} : i64) : i64
  %line = llvm.mlir.constant({_LINE} : i64) : i64
  %barrier_kind = llvm.mlir.constant({BARRIER} : i32) : i32
  %end_kind = llvm.mlir.constant({END} : i32) : i32
{_load("pointers")}{_load("steps")}{_load("totals")}
  %run_at = llvm.getelementptr %context[{CONTEXT.index("run")}] : (!llvm.ptr) -> !llvm.ptr, i64
  %run_number = llvm.load %run_at : !llvm.ptr -> i64
  %spins_at = llvm.getelementptr %context[{CONTEXT.index("spins")}] : (!llvm.ptr) -> !llvm.ptr, i64
  %spins = llvm.load %spins_at : !llvm.ptr -> i64
  %own_total_at = llvm.getelementptr %totals[%veu] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %own_total = llvm.load %own_total_at : !llvm.ptr -> i64
  %base = llvm.mul %own_total, %run_number : i64
  %own_index = llvm.mul %veu, %line : i64
  %own_counter = llvm.getelementptr %steps[%own_index] : (!llvm.ptr, i64) -> !llvm.ptr, i8
"""


def _load(word: str) -> str:
    index = CONTEXT.index(word)
    return f"""  %{word}_at = llvm.getelementptr %context[{index}] : (!llvm.ptr) -> !llvm.ptr, i64
  %{word} = llvm.load %{word}_at : !llvm.ptr -> !llvm.ptr
"""


def _kernel_case(index: int, kernel: KernelSymbol) -> str:
    """Return the block that runs an rKernel's rTasks with buffers from the task table."""
    loads: list[str] = []
    for number in range(kernel.num_arguments):
        k = f"{index}_{number}"
        loads.append(f"""  %slot_at{k} = llvm.getelementptr %mine[{number}] : (!llvm.ptr) -> !llvm.ptr, i32
  %slot32_{k} = llvm.load %slot_at{k} : !llvm.ptr -> i32
  %slot{k} = llvm.sext %slot32_{k} : i32 to i64
  %buffer_at{k} = llvm.getelementptr %pointers[%slot{k}] : (!llvm.ptr, i64) -> !llvm.ptr, !llvm.ptr
  %buffer{k} = llvm.load %buffer_at{k} : !llvm.ptr -> !llvm.ptr
""")  # noqa: E501
    buffers = [f"%buffer{index}_{number}" for number in range(kernel.num_arguments)]
    return f"""^kernel{index}:
{"".join(loads)}  llvm.br ^loop{index}(%second, %done : i64, i64)
{_loop(str(index), kernel, buffers, "%limit", "^next(%after_run, %steps_done" + str(index) + " : i64, i64)")}"""  # noqa: E501


def _loop(key: str, kernel: KernelSymbol, buffers: Sequence[str], limit: str, after: str) -> str:
    """Return the blocks that run the rTasks up to ``limit``, publishing each, then go ``after``."""
    kinds = ", ".join(["i64", *["!llvm.ptr"] * len(buffers)])
    values = ", ".join([f"%id{key}", *buffers])
    return f"""^loop{key}(%id{key}: i64, %steps_done{key}: i64):
  %left{key} = llvm.icmp "slt" %id{key}, {limit} : i64
  llvm.cond_br %left{key}, ^body{key}, {after}
^body{key}:
  llvm.call @{kernel.name}({values}) : ({kinds}) -> ()
  %step{key} = llvm.add %steps_done{key}, %one : i64
  llvm.store %step{key}, %own_counter atomic release {{alignment = 8 : i64}} : i64, !llvm.ptr
  %id_next{key} = llvm.add %id{key}, %one : i64
  llvm.br ^loop{key}(%id_next{key}, %step{key} : i64, i64)
"""


def _straight_veu(
    veu: int, program: Program, records: Sequence[Record], pointer: Mapping[Slot, int]
) -> str:
    """Return the blocks of one vEU: a chain of runs and barriers with constants for operands."""
    text = [f"^veu{veu}:\n  llvm.br ^at{veu}_0(%base : i64)\n"]
    for number, record in enumerate(records):
        key, follow = f"{veu}_{number}", f"{veu}_{number + 1}"
        text.append(f"^at{key}(%done{key}: i64):\n")
        if isinstance(record, BarrierRecord):
            for n, (other, steps) in enumerate(record.waits):
                text.append(_constant_wait(f"{key}_{n}", other, steps))
            text.append(f"  llvm.br ^at{follow}(%done{key} : i64)\n")
        else:
            kernel = program.kernel_of(record)
            slots = [pointer[slot] for slot in program.operators[record.operator].slots]
            text.append(_constant_run(key, kernel, record, slots, f"^at{follow}"))
    last = f"{veu}_{len(records)}"
    text.append(f"^at{last}(%done{last}: i64):\n  llvm.br ^finish\n")
    return "".join(text)


def _constant_wait(key: str, other: int, steps: int) -> str:
    return f"""  %steps{key} = llvm.mlir.constant({steps} : i64) : i64
  %total_at{key} = llvm.getelementptr %totals[{other}] : (!llvm.ptr) -> !llvm.ptr, i64
  %total{key} = llvm.load %total_at{key} : !llvm.ptr -> i64
  %before{key} = llvm.mul %total{key}, %run_number : i64
  %target{key} = llvm.add %before{key}, %steps{key} : i64
  %counter{key} = llvm.getelementptr %steps[{other * _LINE}] : (!llvm.ptr) -> !llvm.ptr, i8
  llvm.call @rammer_wait(%counter{key}, %target{key}, %spins) : (!llvm.ptr, i64, i64) -> ()
"""


def _constant_run(
    key: str, kernel: KernelSymbol, run: RunRecord, slots: Sequence[int], follow: str
) -> str:
    loads: list[str] = []
    for n, slot in enumerate(slots):
        loads.append(f"""  %at{key}_{n} = llvm.getelementptr %pointers[{slot}] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
  %buffer{key}_{n} = llvm.load %at{key}_{n} : !llvm.ptr -> !llvm.ptr
""")  # noqa: E501
    buffers = [f"%buffer{key}_{n}" for n in range(len(slots))]
    loop = _loop(key, kernel, buffers, f"%limit{key}", f"{follow}(%steps_done{key} : i64)")
    return f"""{"".join(loads)}  %first{key} = llvm.mlir.constant({run.first} : i64) : i64
  %limit{key} = llvm.mlir.constant({run.first + run.count} : i64) : i64
  llvm.br ^loop{key}(%first{key}, %done{key} : i64, i64)
{loop}"""


def _trace_buffer() -> str:
    return """
  %trace_at = llvm.getelementptr %traces[%veu] : (!llvm.ptr, i64) -> !llvm.ptr, !llvm.ptr
  %trace = llvm.load %trace_at : !llvm.ptr -> !llvm.ptr
"""


def _stamp(name: str, byte: int) -> str:
    """Write the time at ``byte`` of the record's pair of 64-bit numbers in the trace buffer."""
    return f"""  %{name}_index = llvm.mul %record, %two : i64
  %{name}_pair = llvm.getelementptr %trace[%{name}_index] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %{name}_at = llvm.getelementptr %{name}_pair[{byte}] : (!llvm.ptr) -> !llvm.ptr, i8
  %{name}_now = llvm.call @rammer_nanoseconds() : () -> i64
  llvm.store %{name}_now, %{name}_at : i64, !llvm.ptr
"""


def clock_function() -> str:
    """Return the function that reads the monotonic clock, in nanoseconds."""
    return """
llvm.func @clock_gettime(i32, !llvm.ptr) -> i32
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
"""
