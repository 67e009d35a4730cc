"""Lists the targets, including those that other packages register."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rammer_mlir.errors import OptionError
from rammer_mlir.support.plugins import Registry, check_name, check_plain_name, refuse

if TYPE_CHECKING:
    from rammer_mlir.compiler.backends.backend import Backend

_BUILT_IN = {
    "cpu": "rammer_mlir.compiler.backends.cpu:CpuBackend",
    "nvvm": "rammer_mlir.compiler.backends.nvvm:NvvmBackend",
    "rocdl": "rammer_mlir.compiler.backends.rocdl:RocdlBackend",
    "emulator": "rammer_mlir.compiler.backends.emulator:EmulatorBackend",
}
"""Module and class of each built-in backend, imported at first use."""


def _check(name: str, value: object) -> type[Backend]:
    from rammer_mlir.compiler.backends.backend import Backend

    kind: Any = value
    if not isinstance(kind, type) or not issubclass(kind, Backend) or inspect.isabstract(kind):
        refuse("a subclass of Backend that defines all of its abstract methods", value)
    check_name(name, getattr(kind, "name", None))
    check_plain_name(name)
    spelling = getattr(kind, "spelling", None)
    if not isinstance(spelling, str):
        refuse("a text as spelling, for help", spelling)
    return kind


TARGETS: Registry[type[Backend]] = Registry("target", {}, _check, "targets")
"""Registry of targets that other packages define, by name."""


def backend_names() -> tuple[str, ...]:
    """Return the names of all targets without importing any."""
    return (*_BUILT_IN, *TARGETS.names())


def is_own_target(target: str) -> bool:
    """Whether ``target``, a value of ``--target`` such as ``nvvm:sm_90``, is a built-in target."""
    return target.partition(":")[0] in _BUILT_IN


def backend_class(name: str) -> type[Backend]:
    """Return the backend class of the target ``name``.

    Raises:
        OptionError: if no target has this name; the message lists the syntax of all targets.
    """
    if name not in _BUILT_IN:
        found = TARGETS.find(name)
        if found is None:
            raise OptionError(_unknown(name))
        return found
    module, _, attribute = _BUILT_IN[name].partition(":")
    built_in: type[Backend] = getattr(import_module(module), attribute)
    return built_in


def _spellings() -> Iterator[str]:
    """Yield the syntax of each target.

    For a target of another package that cannot be imported, yield the target's name.
    """
    yield from (backend_class(name).syntax() for name in _BUILT_IN)
    for found in TARGETS.extensions():
        yield found.name if found.value is None else found.value.syntax()


def described_targets() -> Iterator[tuple[str, str]]:
    """Yield two texts for each target: the syntax, and the description with the limitations.

    For a target of another package that cannot be imported, the texts are the target's name and the
    import error.
    """
    yield from (_described(backend_class(name)) for name in _BUILT_IN)
    for found in TARGETS.extensions():
        yield (found.name, found.problem) if found.value is None else _described(found.value)


def _described(backend: type[Backend]) -> tuple[str, str]:
    written = (backend.__doc__ or "").strip()
    # A dataclass without a docstring gets its signature as one.
    first = "" if written.startswith(f"{backend.__name__}(") else written.partition("\n")[0]
    return backend.syntax(), " ".join(filter(None, (first, *backend.lacks)))


def _unknown(target: str) -> str:
    return f"unknown target '{target}': expected one of {', '.join(_spellings())}"


def register_target(backend: type[Backend]) -> None:
    """Register a target under its name.

    Example::

        @dataclass(frozen=True)
        class Serial(CpuBackend):
            name: ClassVar[str] = "serial"
            def stages(self, options: CompileOptions) -> tuple[Stage, ...]:
                return (Stage("operators", (...)), ..., Stage("object", step=compile_to_object))
        register_target(Serial)

    Raises:
        OptionError: if ``backend`` is not a subclass of ``Backend``, or another target has its
            name.
    """
    name = str(getattr(backend, "name", ""))
    if name in _BUILT_IN:
        raise OptionError(f"target '{name}' exists already: choose another name")
    TARGETS.register(name, backend)


def find_backend(target: str) -> Backend:
    """Return the backend of a target on the command line, for example ``nvvm:sm_90``.

    Raises:
        OptionError: if there is no such target.
        TargetError: if the target's processor is unknown or too old.
    """
    name, colon, rest = target.partition(":")
    backend = backend_class(name)
    if colon and not rest:
        raise OptionError(_unknown(target))
    return backend.of(rest)
