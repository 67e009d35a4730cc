"""Opening the driver that a target needs."""

from __future__ import annotations

from numbers import Integral

from rammer_mlir.errors import OptionError, TargetError
from rammer_mlir.runtime.gpu.driver import Driver


def check_device(device: object) -> int:
    """Return the number of a device.

    Raises:
        OptionError: if it is no number of one.
    """
    if isinstance(device, bool) or not isinstance(device, Integral) or device < 0:
        raise OptionError(f"device: expected a number of a GPU, at least 0, found {device!r}")
    return int(device)


def open_driver(target: str, device: int = 0) -> Driver:
    """Open a device of this machine.

    Args:
        target: what the program is compiled for, ``nvvm:sm_90`` or ``rocdl:gfx90a``.
        device: the device's number.

    Raises:
        TargetError: if the driver's bindings are not installed, or there is no driver or device.
    """
    family = target.partition(":")[0]
    if family == "nvvm":
        from rammer_mlir.runtime.gpu.cuda import CudaDriver

        return CudaDriver(device)
    if family == "rocdl":
        from rammer_mlir.runtime.gpu.hip import HipDriver

        return HipDriver(device)
    raise TargetError(f"target '{target}': expected nvvm or rocdl, found no driver for another")
