"""Launches a program on a device; uploads the program's code, weights and schedule once."""

from __future__ import annotations

import weakref
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.programs.gpu_image import GpuImage
from rammer_mlir.programs.native_interface import (
    COUNTERS,
    SCRATCHES,
    TABLE,
    WATCH,
    WatchWord,
    argument_name,
)
from rammer_mlir.programs.records import Base
from rammer_mlir.programs.residency import require_resident
from rammer_mlir.programs.signature import TensorSpec
from rammer_mlir.runtime.gpu.chips import check_chip
from rammer_mlir.runtime.gpu.driver import Argument, Driver, Launch, Use
from rammer_mlir.runtime.gpu.memory import DeviceMemory, MemoryPool
from rammer_mlir.runtime.gpu.watchdog import check_watch

_ARENA, _CONSTANT = argument_name("arena"), argument_name("constant")

_USES: dict[str, Use] = {
    _CONSTANT: "read", TABLE: "read", _ARENA: "written", SCRATCHES: "written",
    COUNTERS: "kept", WATCH: "kept",
}  # fmt: skip


class DeviceProgram:
    """A program that is loaded on a device.

    It owns the device memory of all the program's buffers except the inputs and outputs.

    Attributes:
        driver: the driver of the device.
        image: the program's data.
        stream: the program's own stream.
        outputs: memory of outputs of earlier runs, for the outputs of later runs.
        is_closed: whether the program's memory is freed.
    """

    def __init__(self, driver: Driver, image: GpuImage, code: bytes) -> None:
        """Load the code, and upload weights and schedule.

        Raises:
            TargetError: if the device has another chip, cannot hold all blocks at once, or has too
                little memory.
        """
        self.driver, self.image = driver, image
        check_chip(image, driver.chip, driver.name)
        self._kernel = driver.load(code, image.code_kind, image.entry)
        # Blocks of a persistent kernel wait for each other, so all must be resident.
        if image.is_persistent:
            most = driver.resident_blocks(self._kernel, image.block_threads)
            needs = driver.needs(self._kernel, image.block_threads)
            require_resident(image.target, image.num_veus, most, needs)
        self.stream = driver.create_stream()
        self._last_stream = self.stream
        self._end = weakref.finalize(self, _await_runs, driver, self.stream, self._kernel)
        self._end.atexit = False  # the driver releases everything at exit
        self.outputs = MemoryPool(driver)
        self._sizes = dict(zip(image.arguments, image.argument_bytes, strict=True))
        own = [name for name in image.arguments if name in _USES]
        self._sizes[TABLE] = image.tables.nbytes
        self._memory = {name: DeviceMemory(driver, self._sizes[name]) for name in own}
        self.is_closed = False
        for start, part in zip(image.constants.starts, image.constants.parts, strict=True):
            self._upload(_CONSTANT, part, start)
        self._upload(TABLE, image.tables)
        self._clear_counters()
        driver.synchronize(self.stream)

    def _upload(self, name: str, values: NDArray[np.generic], start: int = 0) -> None:
        if values.nbytes:
            self.driver.upload(self._memory[name].address + start, values, self.stream)

    def _clear_counters(self) -> None:
        """Zero the step counters and the watchdog's buffer.

        This is needed before the first run, and after a run that the watchdog stopped.
        """
        for name in (COUNTERS, WATCH):
            if name in self._memory:
                self.driver.clear(self._memory[name].address, self._sizes[name], self.stream)

    @property
    def last_stream(self) -> object:
        """The stream of the last run; when all its operations are done, all runs are done."""
        return self._last_stream

    def launch(self, inputs: Sequence[int], outputs: Sequence[int], stream: object) -> None:
        """Start a run after all earlier runs, without waiting for its end.

        ``inputs`` and ``outputs`` are device addresses in the signature's order.
        """
        grid = Launch(self.image.num_veus, self.image.block_threads, self.image.is_persistent)
        addresses = self._addresses(inputs, outputs)
        row = self.image.tables.shape[1] * 8
        with self.driver.current():
            self.continue_on(stream)
            # Each launch of a program without barriers reads its own row of the tables.
            for number in range(len(self.image.tables)):
                arguments = self._arguments(addresses, number * row)
                self.driver.launch(self._kernel, grid, arguments, stream)

    def join(self, stream: object) -> None:
        """Make later operations on the program's own stream wait for those of ``stream``.

        Afterwards ``stream``, which belongs to another library, may be destroyed.
        """
        if stream != self.stream:
            self.driver.order(stream, self.stream)
            self._last_stream = self.stream

    def continue_on(self, stream: object) -> None:
        """Make operations that are enqueued on a stream from now on wait for the last run.

        Afterwards ``last_stream`` is this stream, so that the next run waits for these operations.
        """
        if stream != self._last_stream:
            self.driver.order(self._last_stream, stream)
            self._last_stream = stream

    def _addresses(self, inputs: Sequence[int], outputs: Sequence[int]) -> dict[str, int]:
        addresses = {name: memory.address for name, memory in self._memory.items()}
        addresses |= {argument_name("input", n): address for n, address in enumerate(inputs)}
        addresses |= {argument_name("output", n): address for n, address in enumerate(outputs)}
        return addresses

    def _arguments(self, addresses: dict[str, int], table_offset: int) -> list[Argument]:
        names = self._names()
        sizes = zip(self.image.arguments, self.image.argument_bytes, strict=True)
        return [
            Argument(
                addresses[name] + (table_offset if name == TABLE else 0),
                size,
                names.get(name, f"the {name}"),
                self._use(name),
            )
            for name, size in sizes
        ]

    def _use(self, name: str) -> Use:
        # Several launches communicate through the arena, so its content must survive between them.
        if name == _ARENA and not self.image.is_persistent:
            return "kept"
        if name.startswith("output"):
            return "written" if self.image.is_persistent else "kept"
        return _USES.get(name, "kept" if name in self.image.inouts else "read")

    def _names(self) -> dict[str, str]:
        """Return texts that name the kernel's inputs and outputs in messages, by argument name.

        For example, the text for the argument ``input0`` is ``input 'x'``.
        """
        signature = self.image.signature
        specs: dict[Base, tuple[TensorSpec, ...]] = {
            "input": signature.inputs,
            "output": signature.outputs,
        }
        return {
            argument_name(base, number): f"{base} '{spec.name}'"
            for base, of_base in specs.items()
            for number, spec in enumerate(of_base)
        }

    def check(self, stream: object) -> None:
        """Wait for a stream; raise ``TargetError`` if the watchdog stopped the program.

        The program can run again after the error.
        """
        self.driver.synchronize(stream)
        if WATCH not in self._memory:
            return
        watch = np.zeros(self._sizes[WATCH] // 8, np.int64)
        self.driver.download(watch, self._memory[WATCH].address, stream)
        self.driver.synchronize(stream)
        # A stopped run leaves counters in the middle, which would deadlock the next run.
        if watch[WatchWord.CLAIMS]:
            self._clear_counters()
            self.driver.synchronize(self.stream)
        check_watch(self.image, watch)

    def close(self) -> None:
        """Wait for the last run, and free the program's memory, code and stream on the device.

        The stream remains as long as arrays refer to it.
        """
        self.is_closed = True
        self.driver.synchronize(self._last_stream)
        self._end()
        for memory in self._memory.values():
            memory.free()
        self.outputs.close()
        # Captured runs may keep this object alive.
        self._kernel = self.stream = self._last_stream = None


def _await_runs(driver: Driver, stream: object, kernel: object) -> None:
    """Wait for all runs of a program, which its own stream follows, before ``kernel`` is released.

    The kernel does not know the runs on streams of other packages.
    """
    del kernel
    driver.synchronize(stream)
