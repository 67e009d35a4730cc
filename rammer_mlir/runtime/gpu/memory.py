"""Allocates device memory, and frees or reuses it when its owner is no longer referenced."""

from __future__ import annotations

import weakref
from collections import defaultdict

from rammer_mlir.errors import TargetError
from rammer_mlir.runtime.gpu.driver import Driver

_MOST_KEPT = 4
"""Most free allocations of a size that a pool keeps.

They suffice for callers with a few runs in progress; other packages may need more of the memory.
"""


class DeviceMemory:
    """A device allocation, aligned for every access.

    Attributes:
        address: device address of the allocation.
        num_bytes: size of the allocation.
        is_lent: whether other users than the runs of one program may access the memory. It is then
            freed instead of reused, because freeing waits for all work on the device.
    """

    def __init__(self, driver: Driver, num_bytes: int) -> None:
        """Allocate ``num_bytes`` bytes of device memory, at least one byte.

        Raises:
            TargetError: if the device memory is too small.
        """
        self.num_bytes, self.is_lent = num_bytes, False
        self.address = driver.allocate(max(num_bytes, 1))
        self._release = weakref.finalize(self, _free, driver, self.address)
        self._release.atexit = False  # the driver frees all memory at exit

    def free(self) -> None:
        """Free the memory now instead of when this object is garbage-collected."""
        self._release()


def _free(driver: Driver, address: int) -> None:
    driver.free(address)


class MemoryPool:
    """Keeps the memory of a program's released outputs for the outputs of later runs.

    A later run may overwrite the memory at once, because all runs of the program follow each other
    on the device. Memory is released by the garbage collector, hence in any thread and at any time;
    the pool therefore has no lock, and changes its lists by atomic operations only.
    """

    def __init__(self, driver: Driver) -> None:
        """Create an empty pool of memory on the driver's device."""
        self._driver = driver
        self._kept: defaultdict[int, list[DeviceMemory]] = defaultdict(list)
        self._is_closed = False

    def take(self, num_bytes: int) -> DeviceMemory:
        """Return kept memory of this size, or else new memory.

        Raises:
            TargetError: if the device memory is too small.
        """
        try:
            return self._kept[num_bytes].pop()
        except IndexError:
            return self._allocate(num_bytes)

    def _allocate(self, num_bytes: int) -> DeviceMemory:
        try:
            return DeviceMemory(self._driver, num_bytes)
        except TargetError:
            self._kept.clear()  # frees memory of other sizes
            return DeviceMemory(self._driver, num_bytes)

    def give_back(self, memory: DeviceMemory) -> None:
        """Keep released memory for later, or free it if it is lent, or enough of its size is kept.

        The memory is freed because the caller and the pool no longer reference it.
        """
        kept = self._kept[memory.num_bytes]
        if not (self._is_closed or memory.is_lent or len(kept) >= _MOST_KEPT):
            kept.append(memory)

    def close(self) -> None:
        """Free all kept memory, and all memory that is given back from now on."""
        self._is_closed = True
        self._kept.clear()
