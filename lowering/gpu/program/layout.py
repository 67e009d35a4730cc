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

    A buffer is identified by its kind of memory (input, output, constant or arena) and its index
    among the buffers of that kind.

    Attributes:
        target: the GPU.
        program: the scheduled program.
        table: the task table of the program's first launch.
        buffer_bytes: size in bytes of each of the kernel's buffers, in the order in which the task
            table numbers the buffers.
        kernels: types of the rKernels' arguments, and sizes of shared and scratch memory.
        table_words: number of words of the longest task table among the program's launches.
        watchdog: number of polls after which a waiting vEU stops the program; 0 for no watchdog.
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
        """The kernel's buffers in the order of their indices: inputs, outputs, constants, arena.

        Each is a pair of its kind of memory and its index among the buffers of that kind.
        """
        return list(self.buffer_bytes)

    @property
    def scratch_bytes(self) -> int:
        """The size in bytes of all vEUs' scratch memory."""
        return self.kernels.scratch_bytes * self.num_veus

    @property
    def counter_words(self) -> int:
        """The total number of words of the step counters of all vEUs."""
        return self.num_veus * COUNTER_WORDS

    @property
    def counters_type(self) -> ir.MemRefType:
        """The memref type of the array of all step counters."""
        return words_type(self.counter_words)

    @property
    def table_type(self) -> ir.MemRefType:
        """The memref type of the task table."""
        return words_type(self.table_words)

    @property
    def watch_type(self) -> ir.MemRefType:
        """The memref type of the buffer in which the watchdog reports a wait that is too long."""
        return words_type(watch_words(self.num_veus))

    def argument_types(self) -> dict[str, ir.MemRefType]:
        """Return the memref type of each kernel argument by name, in the order of the arguments."""
        kinds = {argument_name(*b): bytes_type(size) for b, size in self.buffer_bytes.items()}
        kinds[SCRATCHES] = bytes_type(self.scratch_bytes)
        kinds[COUNTERS] = self.counters_type
        kinds[TABLE] = self.table_type
        if self.watchdog:
            kinds[WATCH] = self.watch_type
        return kinds

    def argument_bytes(self) -> dict[str, int]:
        """Return the size in bytes of the buffer of each kernel argument, by the argument's name.

        The order is that of the arguments.
        """
        return {
            name: kind.shape[0] * ir.IntegerType(kind.element_type).width // 8
            for name, kind in self.argument_types().items()
        }
