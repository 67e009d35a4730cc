"""Opens the CUDA or HIP driver on a device, depending on the target."""

from __future__ import annotations

from numbers import Integral

from rammer_mlir.errors import OptionError, TargetError
from rammer_mlir.runtime.gpu.driver import Driver


def check_device(device: object) -> int:
    """Return the index of a device, given by a user, as an ``int``.

    Raises:
        OptionError: if ``device`` is not an integer of at least 0.
    """
    if isinstance(device, bool) or not isinstance(device, Integral) or device < 0:
        raise OptionError(f"device: expected a number of a GPU, at least 0, found {device!r}")
    return int(device)


def open_driver(target: str, device: int = 0) -> Driver:
    """Open a device of this machine.

    Args:
        target: target of the program, for example ``nvvm:sm_90`` or ``rocdl:gfx90a``.
        device: index of the device.

    Raises:
        TargetError: if the driver's bindings are not installed, or there is no driver or device.
    """
    family = target.partition(":")[0]
    if family not in _DRIVERS:
        raise TargetError(
            f"target '{target}': expected {' or '.join(_DRIVERS)}, found no driver for another"
        )
    return _DRIVERS[family](device)


def _open_cuda(device: int) -> Driver:
    from rammer_mlir.runtime.gpu.cuda import CudaDriver

    return CudaDriver(device)


def _open_hip(device: int) -> Driver:
    from rammer_mlir.runtime.gpu.hip import HipDriver

    return HipDriver(device)


_DRIVERS = {"nvvm": _open_cuda, "rocdl": _open_hip}
"""Openers by GPU family; a vendor's package is imported when a device is opened."""
