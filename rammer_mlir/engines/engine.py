"""Defines the interface of engines, which run graphs and binaries of foreign code."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, cast

from rammer_mlir.engines.host import EntryHost, OpenEntry
from rammer_mlir.support.plugins import (
    Registry,
    check_name,
    check_plain_name,
    refuse,
    refuse_misspelt,
)


class Engine(Protocol):
    """An engine: runs the content of an ``rtask.module`` of the form ``graph`` or ``binary``.

    An engine may have two more members. ``options``, a sequence of ``ModuleOption``, are settings
    for users. The method ``prebuilt(hosts)`` rebuilds a module for this machine at compile time: it
    returns a module of the form ``binary``, or None to keep the module. ``hosts`` is a sequence
    with the description (``EntryHost``) of each stateful function of the module, as ``open`` gets
    it, but with ``run_calls`` 0.
    """

    name: ClassVar[str]
    """Name by which modules refer to the engine."""

    def open(self, host: EntryHost) -> OpenEntry:
        """Create the state of a stateful function of a module, before the function's first run.

        ``host`` describes the function: its module, name, weights and options.

        Returns:
            The address of the function that compiled code calls, and the state that compiled code
            passes to it.

        Raises:
            RammerError: if the state cannot be created; the message is one line.
        """
        ...


def _check(name: str, value: object) -> Engine:
    given: Any = value() if isinstance(value, type) and hasattr(value, "open") else value
    if not isinstance(getattr(given, "name", None), str) or not callable(
        getattr(given, "open", None)
    ):
        refuse("an engine, with a name and a function open", value)
    check_name(name, given.name)
    check_plain_name(name)
    refuse_misspelt(given, ("options", "prebuilt"))
    return cast("Engine", given)


_OWN: dict[str, str] = {
    "numpy": "rammer_mlir.engines.graphs.numpy_engine:NumPyEngine",
    "onnxruntime": "rammer_mlir.engines.graphs.onnxruntime_engine:OnnxRuntimeEngine",
    "openvino": "rammer_mlir.engines.graphs.openvino_engine:OpenVinoEngine",
}
"""Module and class of each engine of this project, by name; imported when the name is used."""

ENGINES: Registry[Engine] = Registry("engine", {}, _check, "engines", lazy=_OWN)
"""Engines by name."""


def register_engine(engine: Engine) -> None:
    """Register an engine under its name.

    Raises:
        OptionError: if ``engine`` is not an engine, or an engine with its name is registered
            already.
    """
    ENGINES.register(getattr(engine, "name", ""), engine)
