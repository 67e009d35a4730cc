"""Describes a persistent kernel: its program, task table and argument types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.gpu.kernels import MappedKernels
from rammer_mlir.lowering.gpu.program.builders import bytes_type, words_type
from rammer_mlir.lowering.gpu.target import GpuTarget
from rammer_mlir.programs.gpu_table import Buffer, GpuTable
from rammer_mlir.programs.native_interface import (
    COUNTER_WORDS,
    COUNTERS,
    SCRATCHES,
    TABLE,
    WATCH,
    argument_name,
    watch_words,
)
from rammer_mlir.programs.records import Program


@dataclass(frozen=True)
class KernelLayout:
    """The data from which a persistent kernel is built.

    Attributes:
        target: the GPU.
        program: the schedule.
        table: the task table of the program's first launch.
        buffer_bytes: size of each of the kernel's buffers, in the order of their numbers; a key is
            a pair of the buffer's base and its number among the buffers of that base.
        kernels: types of the rKernels' arguments, and sizes of shared and scratch memory.
        table_words: number of words of the longest task table among the kernel's launches.
        watchdog: number of polls after which a waiting vEU stops the program, 0 for none.
    """

    target: GpuTarget
    program: Program
    table: GpuTable
    buffer_bytes: Mapping[Buffer, int]
    kernels: MappedKernels
    table_words: int
    watchdog: int = 0

    @property
    def num_veus(self) -> int:
        """The number of vEUs; it equals the number of blocks."""
        return self.program.num_veus

    @property
    def buffers(self) -> list[Buffer]:
        """The kernel's buffers in the order of their numbers: inputs, outputs, constants, arena.

        A buffer is a pair of its base and its number among the buffers of that base.
        """
        return list(self.buffer_bytes)

    @property
    def scratch_bytes(self) -> int:
        """The size in bytes of all vEUs' scratch memory."""
        return self.kernels.scratch_bytes * self.num_veus

    @property
    def counter_words(self) -> int:
        """The number of words of all step counters."""
        return self.num_veus * COUNTER_WORDS

    @property
    def counters_type(self) -> ir.MemRefType:
        """The type of the step counters."""
        return words_type(self.counter_words)

    @property
    def table_type(self) -> ir.MemRefType:
        """The type of the task table."""
        return words_type(self.table_words)

    @property
    def watch_type(self) -> ir.MemRefType:
        """The type of the watchdog's buffer."""
        return words_type(watch_words(self.num_veus))

    def argument_types(self) -> dict[str, ir.MemRefType]:
        """Return the types of the kernel's arguments by name, in the order of the arguments."""
        kinds = {argument_name(*b): bytes_type(size) for b, size in self.buffer_bytes.items()}
        kinds[SCRATCHES] = bytes_type(self.scratch_bytes)
        kinds[COUNTERS] = self.counters_type
        kinds[TABLE] = self.table_type
        if self.watchdog:
            kinds[WATCH] = self.watch_type
        return kinds

    def argument_bytes(self) -> dict[str, int]:
        """Return the bytes of the kernel's arguments by name, in the order of the arguments."""
        return {
            name: kind.shape[0] * ir.IntegerType(kind.element_type).width // 8
            for name, kind in self.argument_types().items()
        }
