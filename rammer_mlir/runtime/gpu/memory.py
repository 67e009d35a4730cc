"""Device memory that is given back when nothing refers to it any more."""

from __future__ import annotations

import weakref

from rammer_mlir.runtime.gpu.driver import Driver


class DeviceMemory:
    """Memory of a device, aligned for every access; ``address`` is the device's."""

    def __init__(self, driver: Driver, num_bytes: int) -> None:
        """Allocate at least one byte.

        Raises:
            TargetError: if the device has not as much.
        """
        self.num_bytes = num_bytes
        self.address = driver.allocate(max(num_bytes, 1))
        self._release = weakref.finalize(self, _free, driver, self.address)
        self._release.atexit = False  # the driver gives everything back when the process ends

    def free(self) -> None:
        """Give the memory back now."""
        self._release()


def _free(driver: Driver, address: int) -> None:
    driver.activate()
    driver.free(address)
