"""Emits a persistent kernel's signature, and the prologue that computes the current run's index."""

from __future__ import annotations

from rammer_mlir.bindings import arith, func, gpu, ir, memref, scf
from rammer_mlir.lowering.gpu.guards import when
from rammer_mlir.lowering.gpu.kernels import BufferType
from rammer_mlir.lowering.gpu.program.barriers import AWAIT, PUBLISH
from rammer_mlir.lowering.gpu.program.builders import (
    add,
    as_word,
    bytes_type,
    call,
    compare,
    index,
    load_word,
    multiply,
    repeat,
    word,
)
from rammer_mlir.lowering.gpu.program.layout import KernelLayout
from rammer_mlir.lowering.gpu.temporaries import ALIGNMENT, WORKGROUP
from rammer_mlir.lowering.llvm.builders import i64
from rammer_mlir.programs.gpu_table import Buffer
from rammer_mlir.programs.native_interface import (
    COUNTER_WORDS,
    COUNTERS,
    GPU_ENTRY,
    SCRATCHES,
    TABLE,
    WATCH,
    argument_name,
)


class KernelFrame:
    """The persistent kernel, up to where blocks begin to execute records (rTask runs, barriers).

    Attributes:
        layout: the program and the types of the kernel's arguments.
        entry: the kernel's only MLIR block; it has no terminator yet.
        table: the task table.
        veu: index of the GPU block, which is also the index of its vEU.
        base: value of the vEU's step counter before this run.
        run: index of the program's run, from 0.
        total_at: position in the task table of the vEU's rTask count per run.
    """

    def __init__(self, layout: KernelLayout) -> None:
        """Define the kernel at the current insertion point; emit the index of the current run."""
        self.layout = layout
        kinds = layout.argument_types()
        self.entry = _define_kernel(layout, list(kinds.values()))
        *arguments, self._shared = self.entry.arguments
        self._arguments = dict(zip(kinds, arguments, strict=True))
        self.table = self._arguments[TABLE]
        self._signatures = {
            name: [(kind, ir.MemRefType(ir.Type.parse(kind.text))) for kind in buffers]
            for name, buffers in layout.kernels.signatures.items()
        }
        with ir.InsertionPoint(self.entry):
            self.veu = gpu.block_id(gpu.Dimension.x)
            self._veu_word = as_word(self.veu)
            self._scratch = self._own_scratch()
            self._read_run()

    def _own_scratch(self) -> ir.Value:
        own = self.layout.kernels.scratch_bytes
        start = multiply(self.veu, index(own))
        return memref.view(bytes_type(own), self._arguments[SCRATCHES], start, [])

    def _read_run(self) -> None:
        """Emit the count of the vEU's completed runs, which is the index of this run.

        The count is the vEU's step counter divided by the vEU's rTask count per run. The kernel
        needs no other state, so a captured launch can be replayed without an update by the host.
        """
        counter = multiply(self.veu, index(COUNTER_WORDS))
        self.base = load_word(self._arguments[COUNTERS], counter)
        self.total_at = add(index(self.layout.num_veus), self.veu)
        # A vEU without rTasks has a total of 0; dividing by it would be undefined.
        divisor = arith.maxsi(load_word(self.table, self.total_at), word(1))
        self.run = arith.divui(self.base, divisor)
        gpu.barrier()

    def buffer(self, buffer: Buffer) -> ir.Value:
        """Return the kernel's argument for ``buffer``, a pair (kind of memory, index)."""
        return self._arguments[argument_name(*buffer)]

    def buffer_types(self, kernel: str) -> list[tuple[BufferType, ir.MemRefType]]:
        """Return the types of an rKernel's buffers, each as ``BufferType`` and as MLIR type."""
        return self._signatures[kernel]

    def run_tasks(
        self, kernel: str, buffers: list[ir.Value], first: ir.Value, limit: ir.Value
    ) -> None:
        """Emit a loop that calls rKernel ``kernel`` for rTasks ``first`` to ``limit`` (exclusive).

        ``buffers`` are the rKernel's arguments. The rTasks are independent, but if the rKernel has
        temporaries, all rTasks use the same memory for the temporaries; a block barrier then
        separates consecutive rTasks. The caller emits the block barrier after the last rTask, by
        ``publish`` or ``meet``.
        """
        reuses = kernel in self.layout.kernels.with_temporaries
        with repeat(first, limit, index(1)) as task:
            if reuses:
                with when(compare("ne", task, first)):
                    gpu.barrier()
            call(kernel, task, *buffers, self._shared, self._scratch)

    def meet(self) -> None:
        """Emit a block barrier, so that the vEU's next rTasks see earlier rTasks' results."""
        gpu.barrier()

    def publish(self, done: ir.Value) -> None:
        """Emit the store of ``done`` in the vEU's step counter, with release order."""
        call(PUBLISH, self._arguments[COUNTERS], self._veu_word, done)

    def wait(self, at: ir.Value, count: ir.Value) -> None:
        """Emit a wait until other vEUs have completed given counts of steps.

        The task table has ``count`` pairs (vEU, steps), whose first is at position ``at``.
        """
        call(AWAIT, self._arguments[COUNTERS], self.table, at, count, self.run)

    def wait_or_stop(self, at: ir.Value, count: ir.Value) -> ir.Value:
        """Emit a wait like ``wait`` that ends early if a thread times out (``watchdog``).

        Return an i1: whether this vEU has to stop, because a thread timed out before the awaited
        steps were completed.
        """
        arguments = [self._arguments[COUNTERS], self.table, at, count, self.run]
        arguments += [self._arguments[WATCH], self._veu_word]
        return func.CallOp([ir.IntegerType.get_signless(1)], AWAIT, arguments).results[0]


def _define_kernel(layout: KernelLayout, arguments: list[ir.MemRefType]) -> ir.Block:
    """Define the kernel; return its entry block, whose last argument is the shared memory."""
    alignment = ir.IntegerAttr.get(i64(), ALIGNMENT)
    kernel = gpu.GPUFuncOp(
        ir.FunctionType.get(list(arguments), []),
        GPU_ENTRY,
        workgroup_attrib_attrs=[{"llvm.align": alignment}],
        known_block_size=[layout.target.block_threads, 1, 1],
        known_grid_size=[layout.num_veus, 1, 1],
    )
    # The bindings' builder has no parameters for these two attributes.
    kernel.attributes["kernel"] = ir.UnitAttr.get()
    kernel.attributes["workgroup_attributions"] = ir.IntegerAttr.get(i64(), 1)
    shared = bytes_type(layout.kernels.shared_bytes, WORKGROUP)
    return kernel.regions[0].blocks.append(*arguments, shared)


def typed_view(
    source: ir.Value, start: ir.Value, kind: BufferType, target: ir.MemRefType
) -> ir.Value:
    """Emit a view of ``source``, one of the kernel's buffers, as an argument of an rKernel.

    The view begins ``start`` bytes after the buffer's beginning. ``target`` is the view's type;
    ``kind`` has the view's shape, offset and strides.
    """
    flat = memref.view(ir.MemRefType.get([kind.elements], target.element_type), source, start, [])
    return memref.reinterpret_cast(
        target, flat, [], [], [], [kind.offset], list(kind.shape), list(kind.strides)
    )


def choose_buffer(
    frame: KernelFrame, which: ir.Value, numbers: list[int], kind: ir.MemRefType
) -> ir.Value:
    """Emit the selection of one of the kernel's buffers by its index ``which``; return the buffer.

    ``numbers`` are the possible values of ``which``, indices in ``KernelLayout.buffers``. The
    buffer is cast to type ``kind``.
    """
    switch = scf.IndexSwitchOp([kind], which, numbers[:-1])
    for number, block in zip(numbers, [*switch.case_blocks, switch.default_block], strict=True):
        with ir.InsertionPoint(block):
            buffer = frame.buffer(frame.layout.buffers[number])
            scf.YieldOp([memref.cast(kind, buffer)])
    return switch.results[0]
