"""The devices that come with the project, and those of users' files."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from rammer_mlir.errors import OptionError
from rammer_mlir.scheduling.device import Device
from rammer_mlir.scheduling.devices.description import DeviceDescription, read_description

_FOLDER = Path(__file__).parent
_ENDING = ".toml"

CPU = "cpu"


@cache
def names() -> tuple[str, ...]:
    """Return the names of the devices that come with the project."""
    return tuple(sorted(path.stem for path in _FOLDER.glob(f"*{_ENDING}")))


@cache
def _known(name: str) -> DeviceDescription:
    return read_description(_FOLDER / f"{name}{_ENDING}")


def find_device(name: str) -> DeviceDescription:
    """Return a device by its name, or read the file of this name.

    Raises:
        OptionError: if there is neither, or the file is not a device's.
    """
    if name.lower() in names():
        return _known(name.lower())
    if name.endswith(_ENDING):
        return read_description(Path(name))
    raise OptionError(
        f"unknown device '{name}': expected one of {', '.join(names())}, or a file that ends with "
        f"{_ENDING}"
    )


def cpu_device(num_veus: int) -> Device:
    """Return a CPU with ``num_veus`` threads.

    Raises:
        OptionError: if there is no vEU, or there are too many.
    """
    return _known(CPU).device(num_veus)


def device_for(target: str) -> DeviceDescription:
    """Return the device that programs for a target are scheduled for, unless one is named.

    Args:
        target: with its chip: ``cpu``, ``nvvm:sm_90``, ``rocdl:gfx90a``.
    """
    for name in names():
        if target in _known(name).targets:
            return _known(name)
    return _known(CPU)
