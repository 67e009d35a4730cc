"""Barrier-rTasks between vEUs inside a persistent kernel (RAMMER section 4.2).

A vEU's step counter holds the rTasks that it has completed in all runs so far. To publish: a block
barrier, then one thread's release store; each counter has one writer, so no read-modify-write is
needed. To wait: one thread for each awaited vEU polls with acquire loads, backing off; then a block
barrier. Both orders are at device scope. The block barrier carries the release to what the other
threads wrote and the acquire to what they read next, as causality order does in PTX; where the
target asks for it, each thread adds a fence of its own.
"""

from __future__ import annotations

from rammer_mlir.lowering.gpu.target import GpuTarget

COUNTER_WORDS = 16
"""64-bit words from one vEU's counter to the next: a cache line of 128 bytes."""

PAUSE = "rammer_pause"
"""Declared in the gpu module: called between two looks; each target has its instruction."""

AWAIT, PUBLISH = "rammer_await", "rammer_publish"


def await_function(target: GpuTarget, num_veus: int, table: str) -> str:
    """Return the function of the gpu module that awaits step counters.

    ``table`` is the type of the task table.
    """
    counters = f"memref<{num_veus * COUNTER_WORDS}xi64>"
    return f"""
func.func private @{PAUSE}()

// Wait for the {{n}} pairs (vEU, steps) of the task table from position {{at}} on, in run {{run}}.
func.func private @{AWAIT}(%counters: {counters}, %table: {table}, %at: index, %n: index, %run: i64) {{
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %line = arith.constant {COUNTER_WORDS} : i64
  %totals = arith.constant {num_veus} : index
  %thread = gpu.thread_id x
  %threads = arith.constant {target.block_threads} : index
  scf.for %pair = %thread to %n step %threads {{
{awaited_step(counters, table)}
    scf.while : () -> () {{
      %now = llvm.load %pointer atomic syncscope("{target.scope}") acquire {{alignment = 8 : i64}} : !llvm.ptr<1> -> i64
      %early = arith.cmpi slt, %now, %wanted : i64
      scf.condition(%early)
    }} do {{
      func.call @{PAUSE}() : () -> ()
      scf.yield
    }}
  }}
  gpu.barrier
{fence(target, "acquire")}  return
}}
"""  # noqa: E501


def publish_function(target: GpuTarget, num_veus: int) -> str:
    """Return the function of the gpu module that publishes a step counter."""
    counters = f"memref<{num_veus * COUNTER_WORDS}xi64>"
    return f"""
// Tell the other vEUs that this one has completed {{done}} rTasks in all runs so far.
func.func private @{PUBLISH}(%counters: {counters}, %veu: i64, %done: i64) {{
  %line = arith.constant {COUNTER_WORDS} : i64
  %zero = arith.constant 0 : index
{fence(target, "release")}  gpu.barrier
  %thread = gpu.thread_id x
  %is_first = arith.cmpi eq, %thread, %zero : index
  scf.if %is_first {{
{counter_pointer("%veu", counters)}
    llvm.store %done, %pointer atomic syncscope("{target.scope}") release {{alignment = 8 : i64}} : i64, !llvm.ptr<1>
  }}
  return
}}
"""  # noqa: E501


def awaited_step(counters: str, table: str) -> str:
    """Compute %wanted and %pointer: the counter that a pair awaits in run %run, and its address.

    The table's pairs (%veu, steps) begin at %at; this is the one of number %pair.
    """
    return f"""    %twice = arith.muli %pair, %two : index
    %veu_at = arith.addi %at, %twice : index
    %steps_at = arith.addi %veu_at, %one : index
    %veu = memref.load %table[%veu_at] : {table}
    %steps = memref.load %table[%steps_at] : {table}
    %veu_index = arith.index_cast %veu : i64 to index
    %total_at = arith.addi %totals, %veu_index : index
    %total = memref.load %table[%total_at] : {table}
    %before = arith.muli %total, %run : i64
    %wanted = arith.addi %before, %steps : i64
{counter_pointer("%veu", counters)}"""


def counter_pointer(veu: str, counters: str) -> str:
    """Compute %pointer, the address of a vEU's counter. The memref dialect has no atomic load."""
    return f"""    %word = arith.muli {veu}, %line : i64
    %start = memref.extract_aligned_pointer_as_index %counters : {counters} -> index
    %start64 = arith.index_cast %start : index to i64
    %base = llvm.inttoptr %start64 : i64 to !llvm.ptr<1>
    %pointer = llvm.getelementptr %base[%word] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i64"""


def fence(target: GpuTarget, order: str) -> str:
    """Return a fence between blocks with a memory order, where the target needs one of its own."""
    return f'  llvm.fence syncscope("{target.scope}") {order}\n' if target.fences else ""
