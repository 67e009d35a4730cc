"""The table of targets."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from rammer_mlir.errors import OptionError

if TYPE_CHECKING:
    from rammer_mlir.compiler.backends.backend import Backend

_BUILT_IN = {
    "cpu": "rammer_mlir.compiler.backends.cpu:CpuBackend",
    "nvvm": "rammer_mlir.compiler.backends.nvvm:NvvmBackend",
    "rocdl": "rammer_mlir.compiler.backends.rocdl:RocdlBackend",
    "emulator": "rammer_mlir.compiler.backends.emulator:EmulatorBackend",
}
"""Where each back end is defined; it is imported when it is asked for."""

_registered: dict[str, type[Backend]] = {}


def backend_names() -> tuple[str, ...]:
    """Return the names of all targets."""
    return (*_BUILT_IN, *_registered)


def backend_class(name: str) -> type[Backend]:
    """Return the back end of a name.

    Raises:
        OptionError: if there is none, listing how targets are spelled.
    """
    if name in _registered:
        return _registered[name]
    if name not in _BUILT_IN:
        raise OptionError(_unknown(name))
    module, _, attribute = _BUILT_IN[name].partition(":")
    found: type[Backend] = getattr(import_module(module), attribute)
    return found


def _unknown(target: str) -> str:
    known = ", ".join(backend_class(name).spelling for name in backend_names())
    return f"unknown target '{target}': expected one of {known}"


def register_backend(backend: type[Backend]) -> None:
    """Make a target known by its name.

    Raises:
        OptionError: if another one has that name.
    """
    if backend.name in backend_names():
        raise OptionError(f"target '{backend.name}' exists already: choose another name")
    _registered[backend.name] = backend


def find_backend(target: str) -> Backend:
    """Return the back end of a target as the command line spells it, ``nvvm:sm_90``.

    Raises:
        OptionError: if there is no such target.
        TargetError: if its processor is unknown or too old.
    """
    name, colon, rest = target.partition(":")
    backend = backend_class(name)
    if colon and not rest:
        raise OptionError(_unknown(target))
    return backend.of(rest)


def emulator_of(backend: Backend, *, checked: bool, traced: bool) -> Backend:
    """Return what executes another target's programs on this machine's processor.

    Raises:
        OptionError: if the target is not a GPU.
    """
    from rammer_mlir.compiler.backends.emulator import EmulatorBackend

    return EmulatorBackend.of_backend(backend, checked=checked, traced=traced)
