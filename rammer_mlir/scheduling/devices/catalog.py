"""Finds devices by name: the project's files, users' files, and devices of other packages."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import cast

from rammer_mlir.errors import OptionError
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.devices.description import (
    DeviceDescription,
    check_description,
    read_description,
)
from rammer_mlir.support.plugins import Registry, check_name, refuse

_FOLDER = Path(__file__).parent
_ENDING = ".toml"

CPU = "cpu"


def _check(name: str, value: object) -> DeviceDescription:
    found = read_description(value) if isinstance(value, Path) else value
    # The compile cache keys on the fields only, so a subclass with code of its own is refused.
    if type(found) is not DeviceDescription:
        refuse(f"a DeviceDescription or the Path of a {_ENDING} file", value)
    if not isinstance(cast("object", found.name), str) or not found.name:
        refuse("a text as name", repr(found.name))
    check_name(name, found.name)
    return found if isinstance(value, Path) else check_description(found)


DEVICES: Registry[DeviceDescription] = Registry("device", {}, _check, "devices")
"""The registered external devices by name; the project's devices are files of this folder."""


@cache
def names() -> tuple[str, ...]:
    """Return the names of the project's own devices, sorted.

    Each name is the stem of a TOML file in the folder ``rammer_mlir/scheduling/devices``.
    """
    return tuple(sorted(path.stem for path in _FOLDER.glob(f"*{_ENDING}")))


def all_names() -> tuple[str, ...]:
    """Return the names of the project's own devices and of registered external devices, sorted."""
    return tuple(sorted({*names(), *DEVICES.names()}))


@cache
def _known(name: str) -> DeviceDescription:
    return read_description(_FOLDER / f"{name}{_ENDING}")


def register_device(device: DeviceDescription | Path) -> None:
    """Register a device by its description, or by the path of its TOML file.

    ``find_device`` then finds the device under the name in the description, or under the stem of
    the file name.

    Example::

        cpu = find_device("cpu")
        register_device(replace(cpu, name="slow-memory", bytes_per_second=2e10))
        register_device(Path(__file__).with_name("my_gpu.toml"))

    Raises:
        OptionError: if ``device`` is not a valid description, or its file cannot be read, or its
            name is already registered.
    """
    name = device.stem if isinstance(device, Path) else getattr(device, "name", "")
    if name in names():
        raise OptionError(f"device '{name}' exists already: choose another name")
    DEVICES.register(name, device)


def find_device(name: str) -> DeviceDescription:
    """Return the device named ``name``, or the device in the TOML file whose path is ``name``.

    Raises:
        OptionError: if neither a device nor a readable file has this name, or the file is not a
            device description.
    """
    if name.lower() in names():
        return _known(name.lower())
    if name.endswith(_ENDING):
        return read_description(Path(name))
    found = DEVICES.find(name)
    if found is None:
        raise OptionError(
            f"unknown device '{name}': expected one of {', '.join(all_names())}, or a file that "
            f"ends with {_ENDING}"
        )
    return found


def cpu_device(num_veus: int) -> Device:
    """Return the costs and sizes of device ``cpu`` with ``num_veus`` vEUs, each of them a thread.

    Raises:
        OptionError: if ``num_veus`` is below 1 or above the device's maximum.
    """
    return _known(CPU).device(num_veus)


def device_for(target: str) -> DeviceDescription:
    """Return the default device for which programs of a target are scheduled.

    The default is the first device whose ``targets`` contain the target. If there is no such
    device, the default is the device ``cpu``.

    Args:
        target: a target with its chip, such as ``cpu``, ``nvvm:sm_90`` or ``rocdl:gfx90a``.
    """
    for name in names():
        if target in _known(name).targets:
            return _known(name)
    offered = (extension.value for extension in DEVICES.extensions())
    fitting = (device for device in offered if device is not None and target in device.targets)
    return next(fitting, _known(CPU))
