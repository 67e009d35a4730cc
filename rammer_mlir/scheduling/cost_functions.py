"""Registers cost functions: user-supplied models that predict the seconds of an rTask.

A cost function takes an rKernel and a device. It returns the seconds of an rTask while no other vEU
is busy, or None to use the device's own model. The result is used like a measurement
(``costs.rtask_seconds``): the device's cost of starting an rTask is added, and vEUs still share the
device's bandwidth.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, cast

from rammer_mlir.errors import ScheduleError
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import RKernel
from rammer_mlir.support.failures import FAILURES, failure_text
from rammer_mlir.support.plugins import Registry, check_plain_name, refuse

CostFunction = Callable[[RKernel, Device], float | None]
"""A function that returns the seconds of one rTask of an rKernel on a vEU of a device.

It returns None to use the device's own model.
"""

RESERVED = ("measured",)
"""Names that are no cost functions, because ``--costs`` gives them another meaning."""


def _check(name: str, value: object) -> CostFunction:
    if isinstance(value, type) or not callable(value):
        refuse("a function (rkernel, device) -> seconds or None", value)
    check_plain_name(name)
    if name in RESERVED:
        refuse(f"a name other than {', '.join(RESERVED)}", repr(name))
    return cast("CostFunction", value)


COST_FUNCTIONS: Registry[CostFunction] = Registry("cost function", {}, _check, "costs")
"""The registered cost functions by name; none is built in."""


def register_costs(name: str, function: CostFunction) -> None:
    """Register a cost function under a name.

    Example::

        def by_bytes(kernel: RKernel, device: Device) -> float | None:
            if kernel.flops_per_rtask > 4 * kernel.bytes_per_rtask:
                return None
            return max(1, kernel.bytes_per_rtask) / device.bytes_per_second
        register_costs("by-bytes", by_bytes)

    Raises:
        OptionError: if ``function`` is not a function, or the name is registered or reserved.
    """
    COST_FUNCTIONS.register(name, function)


def seconds_by(name: str, kernel: RKernel, device: Device) -> float | None:
    """Return the seconds that the cost function ``name`` predicts for an rTask on a vEU.

    Return None if the function leaves the prediction to the device's model.

    Raises:
        OptionError: if there is no cost function of this name.
        ScheduleError: if the function raises an exception, or returns neither None nor positive,
            finite seconds.
    """
    function = COST_FUNCTIONS.get(name)
    try:
        seconds: Any = function(kernel, device)
    except FAILURES as error:
        raise ScheduleError(
            f"cost function '{name}' failed on rKernel '@{kernel.name}' with "
            f"{failure_text(error)}; mend it"
        ) from error
    if seconds is None:
        return None
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 0 < seconds < inf:
        raise ScheduleError(
            f"cost function '{name}': expected positive, finite seconds or None for rKernel "
            f"'@{kernel.name}', found {seconds!r}; mend it"
        )
    return float(seconds)
