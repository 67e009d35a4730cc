"""Run CUDA C kernels that measure properties of a GPU.

Device descriptions and generated code assume values of these properties. The kernels are compiled
when a kit is packed, so that the machine with the GPU needs no compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from rammer_mlir.benchmarks.gpu.kit.measure import device_seconds
from rammer_mlir.errors import TargetError
from rammer_mlir.runtime.gpu.cuda import CudaDriver
from rammer_mlir.runtime.gpu.driver import Argument, Launch
from rammer_mlir.runtime.gpu.memory import DeviceMemory

THREADS = 256
"""Number of threads of a block, as in our own programs."""

_BELOW = 8192
"""Bytes that are subtracted from a shared array's address, and added again by the tested load."""

_LARGE, _IN_CACHE, _LEAST = 2 << 30, 16 << 20, 1 << 20
"""Sizes of reads in bytes: larger than any cache, within the second-level cache, and smallest."""

_STEPS = 8192
"""Number of hand-offs in a launch.

In a hand-off, a block waits for the numbers of another block, and passes them on.
"""

_COUNTER_BYTES = 128
"""Distance in bytes between the counters of two blocks."""

_MEETINGS = 2000

ATTRIBUTES = (
    "MULTIPROCESSOR_COUNT", "CLOCK_RATE", "MEMORY_CLOCK_RATE", "GLOBAL_MEMORY_BUS_WIDTH",
    "L2_CACHE_SIZE", "MAX_THREADS_PER_MULTIPROCESSOR", "MAX_REGISTERS_PER_MULTIPROCESSOR",
    "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR", "MAX_SHARED_MEMORY_PER_BLOCK",
)  # fmt: skip
"""Attributes of the device that are stored in a kit's results."""


def compile_probe(target: str) -> bytes:
    """Return the probe's kernels as a cubin.

    Raises:
        TargetError: if the target is not an NVIDIA GPU, or a tool is missing.
    """
    from rammer_mlir.lowering.external.code import ForeignCode
    from rammer_mlir.lowering.nvvm.cuda_compiler import compile_cuda
    from rammer_mlir.lowering.nvvm.ptxas import assemble
    from rammer_mlir.lowering.nvvm.target import CHIPS
    from rammer_mlir.lowering.targets import find_gpu

    chip = find_gpu(target).chip
    if chip not in CHIPS:
        raise TargetError(
            f"target '{target}': expected an NVIDIA GPU, nvvm:CHIP, because the kit's probe is "
            "written in CUDA C; choose one"
        )
    source = Path(__file__).with_name("probe.cu").read_bytes()
    return assemble(compile_cuda(ForeignCode("probe", "cuda", source), chip), chip).cubin


class Probe:
    """The probe's kernels, and the GPU whose properties they measure."""

    def __init__(self, driver: CudaDriver, code: bytes) -> None:
        """Prepare to launch kernels of the cubin ``code`` on the driver's device."""
        self._driver, self._code = driver, code
        self._stream = driver.create_stream()
        self.units = driver.attribute("MULTIPROCESSOR_COUNT")

    def measure(self) -> dict[str, Any]:
        """Run all kernels, and return the measurements.

        Returns:
            A dictionary:
            - ``attributes``: attributes of the device by name;
            - ``wrong_shared_loads``: number of threads that load a wrong word from shared memory;
            - ``reads``: a dictionary for each timed launch that reads device memory or the cache;
            - ``hand_offs``: a dictionary for each timed launch in which a block passes numbers to
              the next block;
            - ``meeting_seconds``: seconds of a barrier of all blocks.
        """
        return {
            "attributes": {name: self._driver.attribute(name) for name in ATTRIBUTES},
            "wrong_shared_loads": self._wrong_shared_loads(),
            "reads": self._reads(),
            "hand_offs": self._hand_offs(),
            "meeting_seconds": self._barrier_seconds(),
        }

    def _launch(
        self, entry: str, blocks: int, arguments: list[int], *, cooperative: bool = False
    ) -> Callable[[], None]:
        """Return a function that launches kernel ``entry`` of the cubin on ``blocks`` blocks.

        The kernel's arguments are ``arguments``, each a 64-bit integer or address. All blocks of a
        ``cooperative`` launch are resident at the same time.
        """
        kernel = self._driver.load(self._code, "cubin", entry)
        given = [Argument(value, 8, entry, "kept") for value in arguments]
        grid = Launch(blocks, THREADS, cooperative)
        return lambda: self._driver.launch(kernel, grid, given, self._stream)

    def _wrong_shared_loads(self) -> int:
        """Return the number of threads that load a wrong word from shared memory.

        The address of a load is the sum of a register and an immediate offset. The register has an
        address below the array, and the offset leads back into the array. Generated code relies on
        such a sum being computed with wrap-around.
        """
        found = np.zeros(THREADS, np.int32)
        with self._memory(found.nbytes) as out:
            self._launch("wrap", 1, [out, _BELOW])()
            self._driver.download(found, out, self._stream)
            self._driver.synchronize(self._stream)
        return int((found != np.arange(THREADS)).sum())

    @contextmanager
    def _memory(self, num_bytes: int) -> Generator[int]:
        memory = DeviceMemory(self._driver, num_bytes)
        self._driver.clear(memory.address, num_bytes, self._stream)
        yield memory.address
        self._driver.synchronize(self._stream)
        memory.free()

    def _reads(self) -> list[dict[str, Any]]:
        """Time reads of device memory and of the second-level cache.

        Returns:
            A dictionary for each launch:
            - ``bytes``: number of bytes that are read;
            - ``blocks``: number of blocks;
            - ``loads``: number of loads that a thread has in flight;
            - ``seconds``: median seconds of the launch;
            - ``in_cache``: whether the second-level cache holds the data.
        """
        found: list[dict[str, Any]] = []
        size = self._largest()
        with self._memory(size) as data, self._memory(16 * THREADS) as out:
            shapes = [
                (size, blocks, loads)
                for blocks in (1, 32, 64, self.units, 2 * self.units, 8 * self.units)
                for loads in (1, 4, 16)
            ]
            cached = min(size, _IN_CACHE)
            shapes += [(cached, blocks, 16) for blocks in (1, self.units)]
            for num_bytes, blocks, loads in shapes:
                # A single block reads only a part, since it is many times slower than all blocks.
                share = num_bytes if blocks > 1 else max(num_bytes // 16, _LEAST)
                # The kernel reads whole rounds of all threads only.
                share -= share % (blocks * THREADS * loads * 16)
                if not share:  # a small memory
                    continue
                run = self._launch(f"read{loads}", blocks, [data, share // 16, out])
                seconds = device_seconds(self._driver, self._stream, run, 0.1)["median"]
                found.append({
                    "bytes": share, "blocks": blocks, "loads": loads, "seconds": seconds,
                    "in_cache": num_bytes < size,
                })  # fmt: skip
        return found

    def _largest(self) -> int:
        """Return the largest size in bytes such that two arrays of this size fit in device memory.

        The size is ``_LARGE`` divided by a power of two, and at least ``_IN_CACHE``.
        """
        size = _LARGE
        while size > _IN_CACHE:
            try:
                address = self._driver.allocate(2 * size)
            except TargetError:
                size //= 2
                continue
            self._driver.free(address)
            break
        return size

    def _hand_offs(self) -> list[dict[str, Any]]:
        """Time hand-offs, in which a block waits for 256 numbers of another block.

        In each launch, blocks pass numbers along a chain of hand-offs, and wait for the numbers by
        a kind of polling.

        Returns:
            A dictionary for each launch:
            - ``poll``: kind of polling: "sleeping", "acquiring" or "relaxed";
            - ``blocks``: number of blocks;
            - ``seconds``: seconds of a hand-off;
            - ``right``: whether the last block of the chain got the expected numbers.
        """
        found: list[dict[str, Any]] = []
        with (
            self._memory(_COUNTER_BYTES * self.units) as counters,
            self._memory(_STEPS * THREADS * 4) as data,
        ):
            for poll in ("sleeping", "acquiring", "relaxed"):
                for blocks in (2, 16, self.units):
                    run = self._launch(
                        f"pass_{poll}", blocks, [counters, data, _STEPS], cooperative=True
                    )

                    # The kernel counts from 0, so each launch needs cleared counters.
                    def cleared(run: Callable[[], None] = run) -> None:
                        self._driver.clear(counters, _COUNTER_BYTES * self.units, self._stream)
                        run()

                    seconds = device_seconds(self._driver, self._stream, cleared, 0.1)["median"]
                    passed = np.zeros(THREADS, np.float32)
                    last = data + (_STEPS - 1) * THREADS * 4
                    self._driver.download(passed, last, self._stream)
                    self._driver.synchronize(self._stream)
                    found.append({
                        "poll": poll, "blocks": blocks, "seconds": seconds / _STEPS,
                        "right": bool((passed == _STEPS).all()),
                    })  # fmt: skip
        return found

    def _barrier_seconds(self) -> float:
        """Return the seconds of a barrier of all blocks, made of an atomic addition and polling."""
        with self._memory(_COUNTER_BYTES) as counter:
            run = self._launch("meet", self.units, [counter, _MEETINGS], cooperative=True)

            def cleared() -> None:
                self._driver.clear(counter, _COUNTER_BYTES, self._stream)
                run()

            return device_seconds(self._driver, self._stream, cleared, 0.1)["median"] / _MEETINGS
