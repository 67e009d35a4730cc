"""Allocates device memory, and frees it when its owner is no longer referenced."""

from __future__ import annotations

import weakref

from rammer_mlir.runtime.gpu.driver import Driver


class DeviceMemory:
    """A device allocation, aligned for every access; ``address`` is its device address."""

    def __init__(self, driver: Driver, num_bytes: int) -> None:
        """Allocate ``num_bytes`` bytes of device memory, at least one byte.

        Raises:
            TargetError: if the device memory is too small.
        """
        self.num_bytes = num_bytes
        self.address = driver.allocate(max(num_bytes, 1))
        self._release = weakref.finalize(self, _free, driver, self.address)
        self._release.atexit = False  # the driver frees all memory at exit

    def free(self) -> None:
        """Free the memory now instead of when this object is garbage-collected."""
        self._release()


def _free(driver: Driver, address: int) -> None:
    driver.activate()
    driver.free(address)
