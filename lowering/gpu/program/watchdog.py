"""Barrier-rTasks that give up: who waited for whom, instead of a launch without an end.

A waiting thread counts its looks. The first one of the launch to lose patience writes a report; it
and all that wait later leave their loops, and each block goes to the end of its list, so that the
kernel ends as usual and the host reads the report. The decision is the block's: its word is
written in front of a block barrier and read between that one and a second one.

Words of the buffer: see ``rammer_mlir.programs.gpu_image``.
"""

from __future__ import annotations

from rammer_mlir.lowering.gpu.program.barriers import (
    AWAIT,
    COUNTER_WORDS,
    PAUSE,
    awaited_step,
    fence,
)
from rammer_mlir.lowering.gpu.target import GpuTarget
from rammer_mlir.programs.gpu_image import WATCH_HEADER, WatchWord


def watch_words(num_veus: int) -> int:
    """Return the words of the watchdog's buffer."""
    return WATCH_HEADER + num_veus


def watch_type(num_veus: int) -> str:
    """Return the type of the watchdog's buffer."""
    return f"memref<{watch_words(num_veus)}xi64>"


def watched_await_function(target: GpuTarget, num_veus: int, table: str, looks: int) -> str:
    """Return the function that awaits step counters and says whether the program is stopped.

    Args:
        target: the GPU.
        num_veus: blocks of the kernel.
        table: type of the task table.
        looks: after so many, a thread gives up.
    """
    counters = f"memref<{num_veus * COUNTER_WORDS}xi64>"
    watch = watch_type(num_veus)
    scope = f'syncscope("{target.scope}")'
    report = {
        WatchWord.VEU: "%own",
        WatchWord.AWAITED: "%veu",
        WatchWord.EXPECTED: "%wanted",
        WatchWord.SEEN: "%seen",
        WatchWord.POSITION: "%position",
        WatchWord.RUN: "%run",
    }
    stores = "".join(
        f"        %word{place.value} = arith.constant {place.value} : index\n"
        f"        memref.store {value}, %watch[%word{place.value}] : {watch}\n"
        for place, value in report.items()
    )
    return f"""
func.func private @{PAUSE}()

// Wait for the {{n}} pairs (vEU, steps) of the task table from position {{at}} on, in run {{run}};
// return whether the program is stopped.
func.func private @{AWAIT}(%counters: {counters}, %table: {table}, %at: index, %n: index, %run: i64, %watch: {watch}, %own: i64) -> i1 {{
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %none = arith.constant 0 : i64
  %once = arith.constant 1 : i64
  %header = arith.constant {WATCH_HEADER} : i64
  %patience = arith.constant {looks} : i64
  %line = arith.constant {COUNTER_WORDS} : i64
  %totals = arith.constant {num_veus} : index
  %thread = gpu.thread_id x
  %threads = arith.constant {target.block_threads} : index
  %watch_start = memref.extract_aligned_pointer_as_index %watch : {watch} -> index
  %watch_start64 = arith.index_cast %watch_start : index to i64
  %claims = llvm.inttoptr %watch_start64 : i64 to !llvm.ptr<1>
  %own_word = arith.addi %header, %own : i64
  %mark = llvm.getelementptr %claims[%own_word] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i64
  scf.for %pair = %thread to %n step %threads {{
{awaited_step(counters, table)}
    %looks = scf.while (%count = %none) : (i64) -> i64 {{
      %now = llvm.load %pointer atomic {scope} acquire {{alignment = 8 : i64}} : !llvm.ptr<1> -> i64
      %early = arith.cmpi slt, %now, %wanted : i64
      %patient = arith.cmpi slt, %count, %patience : i64
      %claimed = llvm.load %claims atomic {scope} acquire {{alignment = 8 : i64}} : !llvm.ptr<1> -> i64
      %running = arith.cmpi eq, %claimed, %none : i64
      %waiting = arith.andi %early, %patient : i1
      %go_on = arith.andi %waiting, %running : i1
      scf.condition(%go_on) %count : i64
    }} do {{
    ^bb0(%count: i64):
      func.call @{PAUSE}() : () -> ()
      %next = arith.addi %count, %once : i64
      scf.yield %next : i64
    }}
    %seen = llvm.load %pointer atomic {scope} acquire {{alignment = 8 : i64}} : !llvm.ptr<1> -> i64
    %late = arith.cmpi slt, %seen, %wanted : i64
    scf.if %late {{
      %ticket = llvm.atomicrmw add %claims, %once {scope} monotonic {{alignment = 8 : i64}} : !llvm.ptr<1>, i64
      %is_first = arith.cmpi eq, %ticket, %none : i64
      scf.if %is_first {{
        %position = arith.index_cast %at : index to i64
{stores}      }}
      llvm.store %once, %mark atomic {scope} release {{alignment = 8 : i64}} : i64, !llvm.ptr<1>
    }}
  }}
  gpu.barrier
{fence(target, "acquire")}  %stop = llvm.load %mark atomic {scope} acquire {{alignment = 8 : i64}} : !llvm.ptr<1> -> i64
  %stopped = arith.cmpi ne, %stop, %none : i64
  gpu.barrier
  return %stopped : i1
}}
"""  # noqa: E501
