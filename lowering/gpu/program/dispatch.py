"""The persistent kernel: each block executes the records of its vEU.

Long programs get a loop over the task table with one call for each distinct rKernel; short ones get
straight-line code for each vEU, with constants for buffers and rTask ids. Both leave the waits of
barriers in the table, because one thread reads each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rammer_mlir.lowering.gpu.kernels import BufferType, MappedKernels
from rammer_mlir.lowering.gpu.program.barriers import AWAIT, COUNTER_WORDS, PUBLISH
from rammer_mlir.lowering.gpu.program.watchdog import watch_type
from rammer_mlir.lowering.gpu.target import GpuTarget
from rammer_mlir.lowering.gpu.temporaries import ALIGNMENT, WORKGROUP
from rammer_mlir.programs.gpu_table import (
    END,
    RUN_WORDS,
    WAITS_AT,
    Buffer,
    GpuTable,
    Placed,
    PlacedBarrier,
    PlacedRun,
)
from rammer_mlir.programs.records import Program

ENTRY = "rammer_program"
"""The kernel's symbol."""

STRAIGHT_LINE_LIMIT = 16
"""Records up to which a program becomes straight-line code, where each call may be inlined."""


@dataclass(frozen=True)
class KernelLayout:
    """What the persistent kernel is built from.

    Attributes:
        target: the GPU.
        program: the schedule.
        table: its first launch as the kernel reads it.
        buffer_bytes: size of each of the kernel's buffers, by number.
        kernels: what the rKernels take.
        table_words: words of the longest task table that the kernel is launched with.
        watchdog: looks after which a waiting vEU stops the program, 0 for none.
    """

    target: GpuTarget
    program: Program
    table: GpuTable
    buffer_bytes: Mapping[Buffer, int]
    kernels: MappedKernels
    table_words: int
    watchdog: int = 0

    @property
    def table_type(self) -> str:
        """Return the type of the task table."""
        return f"memref<{self.table_words}xi64>"

    @property
    def num_veus(self) -> int:
        """Return the number of blocks."""
        return self.program.num_veus

    @property
    def buffers(self) -> list[Buffer]:
        """Return the kernel's buffers by number: inputs, outputs, constants, arena."""
        return list(self.buffer_bytes)


def kernel_function(layout: KernelLayout, straight_line_limit: int = STRAIGHT_LINE_LIMIT) -> str:
    """Return the ``gpu.func`` of a program as MLIR text."""
    if layout.program.launches[0].num_records <= straight_line_limit:
        body = _straight_line(layout)
    else:
        body = _dispatch_loop(layout)
    shared = f"memref<{layout.kernels.shared_bytes}xi8, {WORKGROUP}>"
    arguments = ", ".join(f"%{name}: {kind}" for name, kind in kernel_arguments(layout))
    scratch_total = layout.kernels.scratch_bytes * layout.num_veus
    return f"""
gpu.func @{ENTRY}({arguments}) workgroup(%shared: {shared} {{llvm.align = {ALIGNMENT} : i64}}) kernel attributes {{known_block_size = array<i32: {layout.target.block_threads}, 1, 1>, known_grid_size = array<i32: {layout.num_veus}, 1, 1>}} {{
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %veu = gpu.block_id x
  %veu64 = arith.index_cast %veu : index to i64
  %scratch_bytes = arith.constant {layout.kernels.scratch_bytes} : index
  %scratch_at = arith.muli %veu, %scratch_bytes : index
  %scratch = memref.view %scratches[%scratch_at][] : memref<{scratch_total}xi8> to memref<{layout.kernels.scratch_bytes}xi8>
{_read_run(layout)}{body}  gpu.return
}}
"""  # noqa: E501


def kernel_arguments(layout: KernelLayout) -> list[tuple[str, str]]:
    """Return the kernel's arguments, names and types, in order."""
    buffers = [
        (buffer_name(buffer), f"memref<{layout.buffer_bytes[buffer]}xi8>")
        for buffer in layout.buffers
    ]
    watch = [("watch", watch_type(layout.num_veus))] if layout.watchdog else []
    return [
        *buffers,
        ("scratches", f"memref<{layout.kernels.scratch_bytes * layout.num_veus}xi8>"),
        ("counters", f"memref<{layout.num_veus * COUNTER_WORDS}xi64>"),
        ("table", layout.table_type),
        *watch,
    ]


def buffer_name(buffer: Buffer) -> str:
    """Return the name of the kernel's argument for a buffer."""
    base, index = buffer
    return f"{base}{index}" if base in ("input", "output") else base


def _read_run(layout: KernelLayout) -> str:
    """Read how many runs this vEU has completed: its counter over its rTasks in one run.

    The counter is the only state, so a captured launch can be repeated without any host work.
    """
    counters = f"memref<{layout.num_veus * COUNTER_WORDS}xi64>"
    return f"""  %line = arith.constant {COUNTER_WORDS} : index
  %least = arith.constant 1 : i64
  %own_counter = arith.muli %veu, %line : index
  %base = memref.load %counters[%own_counter] : {counters}
  %totals = arith.constant {layout.num_veus} : index
  %own_total_at = arith.addi %totals, %veu : index
  %own_total = memref.load %table[%own_total_at] : {layout.table_type}
  %divisor = arith.maxsi %own_total, %least : i64
  %run = arith.divui %base, %divisor : i64
  gpu.barrier
"""


def _straight_line(layout: KernelLayout) -> str:
    bodies: list[str] = []
    for veu, records in enumerate(layout.table.veus):
        text = "".join(_straight_record(layout, record) for record in records)
        bodies.append(f"  case {veu} {{\n{text}    scf.yield\n  }}\n")
    return f"  scf.index_switch %veu\n{''.join(bodies)}  default {{\n  }}\n"


def _straight_record(layout: KernelLayout, placed: Placed) -> str:
    key = f"_{placed.position}"
    if isinstance(placed, PlacedBarrier):
        return f"""    %at{key} = arith.constant {placed.position + WAITS_AT} : index
    %n{key} = arith.constant {len(placed.record.waits)} : index
{_await(layout, f"%at{key}", f"%n{key}")}"""
    return _straight_run(layout, placed, key)


def _straight_run(layout: KernelLayout, placed: PlacedRun, key: str) -> str:
    record = placed.record
    kernel = layout.program.kernel_of(record)
    kinds = layout.kernels.signatures[kernel.name]
    slots = layout.program.operators[record.operator].slots
    text: list[str] = []
    for n, (slot, kind) in enumerate(zip(slots, kinds, strict=True)):
        buffer = slot.base, slot.index
        text.append(f"    %offset{key}_{n} = arith.constant {slot.offset} : index\n")
        source = f"memref<{layout.buffer_bytes[buffer]}xi8>"
        text.append(_typed_view(f"{key}_{n}", f"%{buffer_name(buffer)}", source, kind))
    text.append(f"    %first{key} = arith.constant {record.first} : index\n")
    text.append(f"    %limit{key} = arith.constant {record.first + record.count} : index\n")
    text.append(_run_loop(layout, kernel.name, key))
    if placed.publish:
        text.append(f"    %steps{key} = arith.constant {placed.steps} : i64\n")
        text.append(f"    %done{key} = arith.addi %base, %steps{key} : i64\n")
        text.append(_publish(layout, f"%done{key}"))
    return "".join(text)


def _dispatch_loop(layout: KernelLayout) -> str:
    cases = "".join(_kernel_case(layout, number) for number in range(len(layout.program.kernels)))
    return f"""  %three = arith.constant 3 : index
  %four = arith.constant 4 : index
  %run_words = arith.constant {RUN_WORDS} : index
  %end_kind = arith.constant {END} : i64
  %no = arith.constant 0 : i64
  %start = memref.load %table[%veu] : {layout.table_type}
  %start_index = arith.index_cast %start : i64 to index
  %last = scf.while (%pc = %start_index) : (index) -> index {{
    %kind = memref.load %table[%pc] : {layout.table_type}
    %more = arith.cmpi ne, %kind, %end_kind : i64
    scf.condition(%more) %pc : index
  }} do {{
  ^bb0(%pc: index):
    %kind = memref.load %table[%pc] : {layout.table_type}
    %kernel = arith.index_cast %kind : i64 to index
    %second_at = arith.addi %pc, %one : index
    %second64 = memref.load %table[%second_at] : {layout.table_type}
    %second = arith.index_cast %second64 : i64 to index
    %third_at = arith.addi %pc, %two : index
    %after = scf.index_switch %kernel -> index
{cases}    default {{
{_await_in_loop(layout)}      scf.yield %next : index
    }}
    scf.yield %after : index
  }}
"""


def _kernel_case(layout: KernelLayout, number: int) -> str:
    """Return the case that runs an rKernel's rTasks on buffers that the table names.

    What the loop would carry from case to case takes registers from every rKernel: where the step
    counter stands is in the table.
    """
    kernel = layout.program.kernels[number]
    key = f"_{number}"
    text = [
        f"""    case {number} {{
      %count64{key} = memref.load %table[%third_at] : {layout.table_type}
      %count{key} = arith.index_cast %count64{key} : i64 to index
      %first{key} = arith.addi %second, %zero : index
      %limit{key} = arith.addi %second, %count{key} : index
      %arguments_at{key} = arith.addi %pc, %three : index
      %arguments64{key} = memref.load %table[%arguments_at{key}] : {layout.table_type}
      %arguments{key} = arith.index_cast %arguments64{key} : i64 to index
"""
    ]
    for n, kind in enumerate(layout.kernels.signatures[kernel.name]):
        text.append(_table_argument(layout, number, n))
        text.append(_typed_view(f"{key}_{n}", f"%buffer{key}_{n}", "memref<?xi8>", kind))
    text.append(_run_loop(layout, kernel.name, key))
    text.append(f"""      %publish_at{key} = arith.addi %pc, %four : index
      %publish{key} = memref.load %table[%publish_at{key}] : {layout.table_type}
      %awaited{key} = arith.cmpi ne, %publish{key}, %no : i64
      scf.if %awaited{key} {{
        %total{key} = memref.load %table[%own_total_at] : {layout.table_type}
        %before{key} = arith.muli %total{key}, %run : i64
        %done{key} = arith.addi %before{key}, %publish{key} : i64
  {_publish(layout, f"%done{key}")}      }}
      %next{key} = arith.addi %pc, %run_words : index
      scf.yield %next{key} : index
    }}
""")
    return "".join(text)


def _table_argument(layout: KernelLayout, number: int, n: int) -> str:
    """Compute %buffer and %offset of an argument, choosing among the buffers it ever is in."""
    key = f"_{number}_{n}"
    used = sorted(
        {
            layout.buffers.index((operator.slots[n].base, operator.slots[n].index))
            for operator in layout.program.operators
            if operator.kernel == number
        }
    )
    head = f"""      %offset_from{key} = arith.constant {2 * n + 1} : index
      %offset_at{key} = arith.addi %arguments_{number}, %offset_from{key} : index
      %offset64{key} = memref.load %table[%offset_at{key}] : {layout.table_type}
      %offset{key} = arith.index_cast %offset64{key} : i64 to index
"""
    if len(used) == 1:
        return head + _cast(layout, f"%buffer{key}", used[0], "      ")
    cases = "".join(
        f"      {f'case {buffer}' if position + 1 < len(used) else 'default'} {{\n"
        + _cast(layout, f"%chosen{key}_{buffer}", buffer, "        ")
        + f"        scf.yield %chosen{key}_{buffer} : memref<?xi8>\n      }}\n"
        for position, buffer in enumerate(used)
    )
    return f"""{head}      %which_from{key} = arith.constant {2 * n} : index
      %which_at{key} = arith.addi %arguments_{number}, %which_from{key} : index
      %which64{key} = memref.load %table[%which_at{key}] : {layout.table_type}
      %which{key} = arith.index_cast %which64{key} : i64 to index
      %buffer{key} = scf.index_switch %which{key} -> memref<?xi8>
{cases}"""


def _cast(layout: KernelLayout, result: str, buffer: int, indent: str) -> str:
    found = layout.buffers[buffer]
    return (
        f"{indent}{result} = memref.cast %{buffer_name(found)} : "
        f"memref<{layout.buffer_bytes[found]}xi8> to memref<?xi8>\n"
    )


def _typed_view(key: str, source: str, source_type: str, kind: BufferType) -> str:
    """Compute %view, the buffer of an rKernel at %offset bytes of a buffer of the kernel."""
    flat = f"memref<{kind.elements}x{kind.element}>"
    sizes = ", ".join(map(str, kind.shape))
    strides = ", ".join(map(str, kind.strides))
    return f"""    %flat{key} = memref.view {source}[%offset{key}][] : {source_type} to {flat}
    %view{key} = memref.reinterpret_cast %flat{key} to offset: [{kind.offset}], sizes: [{sizes}], strides: [{strides}] : {flat} to {kind.text}
"""  # noqa: E501


def _run_loop(layout: KernelLayout, kernel: str, key: str) -> str:
    """Call an rKernel for the rTasks from %first to %limit, then order them for the block.

    rTasks of one run do not depend on each other, so only those that reuse temporaries meet after
    each.
    """
    kinds = layout.kernels.signatures[kernel]
    views = [f"%view{key}_{n}" for n in range(len(kinds))]
    shared = f"memref<{layout.kernels.shared_bytes}xi8, {WORKGROUP}>"
    types = [
        "index",
        *(kind.text for kind in kinds),
        shared,
        f"memref<{layout.kernels.scratch_bytes}xi8>",
    ]
    values = ", ".join([f"%id{key}", *views, "%shared", "%scratch"])
    meet = "      gpu.barrier\n"
    inside, behind = (meet, "") if kernel in layout.kernels.with_temporaries else ("", meet)
    return f"""    scf.for %id{key} = %first{key} to %limit{key} step %one {{
      func.call @{kernel}({values}) : ({", ".join(types)}) -> ()
{inside}    }}
{behind}"""


def _await(layout: KernelLayout, at: str, count: str) -> str:
    counters = f"memref<{layout.num_veus * COUNTER_WORDS}xi64>"
    return (
        f"    func.call @{AWAIT}(%counters, %table, {at}, {count}, %run) : "
        f"({counters}, {layout.table_type}, index, index, i64) -> ()\n"
    )


def _await_in_loop(layout: KernelLayout) -> str:
    """Wait, and compute %next, the record to go on with: an end where the watchdog stopped."""
    pairs = "      %pair_words = arith.muli %second, %two : index\n"
    if not layout.watchdog:
        wait = _await(layout, "%third_at", "%second")
        return f"{wait}{pairs}      %next = arith.addi %third_at, %pair_words : index\n"
    counters = f"memref<{layout.num_veus * COUNTER_WORDS}xi64>"
    kinds = f"{counters}, {layout.table_type}, index, index, i64"
    return f"""      %stopped = func.call @{AWAIT}(%counters, %table, %third_at, %second, %run, %watch, %veu64) : ({kinds}, {watch_type(layout.num_veus)}, i64) -> i1
{pairs}      %behind = arith.addi %third_at, %pair_words : index
      %end_at = arith.constant {layout.table.end} : index
      %next = arith.select %stopped, %end_at, %behind : index
"""  # noqa: E501


def _publish(layout: KernelLayout, done: str) -> str:
    counters = f"memref<{layout.num_veus * COUNTER_WORDS}xi64>"
    return f"    func.call @{PUBLISH}(%counters, %veu64, {done}) : ({counters}, i64, i64) -> ()\n"
