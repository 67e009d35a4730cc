"""What runs graphs and binaries from elsewhere."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, cast

from rammer_mlir.engines.host import EntryHost, OpenEntry
from rammer_mlir.support.plugins import Registry, check_name, refuse, refuse_misspelt


class Engine(Protocol):
    """Runs what an ``rtask.module`` of the form ``graph`` or ``binary`` holds.

    It may have ``options``, a sequence of ``ModuleOption``: what users decide about it; and a
    function ``prebuilt(hosts)``, which makes a module anew for this machine while the program is
    compiled: it gets what ``open`` gets of each function of the module, but ``run_calls``, and
    returns a module of the form ``binary``, or None to leave it as it is.
    """

    name: ClassVar[str]
    """Name by which modules choose it."""

    def open(self, host: EntryHost) -> OpenEntry:
        """Make a function of the module ready to run.

        Raises:
            RammerError: if that fails, in one line.
        """
        ...


def _check(name: str, value: object) -> Engine:
    given: Any = value() if isinstance(value, type) and hasattr(value, "open") else value
    if not isinstance(getattr(given, "name", None), str) or not callable(
        getattr(given, "open", None)
    ):
        refuse("an engine, with a name and a function open", value)
    check_name(name, given.name)
    refuse_misspelt(given, ("options", "prebuilt"))
    return cast("Engine", given)


_OWN: dict[str, str] = {
    "numpy": "rammer_mlir.engines.graphs.numpy_engine:NumPyEngine",
    "onnxruntime": "rammer_mlir.engines.graphs.onnxruntime_engine:OnnxRuntimeEngine",
    "openvino": "rammer_mlir.engines.graphs.openvino_engine:OpenVinoEngine",
}
"""Engines of this project: their modules and classes, imported when a name is asked for."""

ENGINES: Registry[Engine] = Registry("engine", {}, _check, "engines", lazy=_OWN)
"""Engines by name."""


def register_engine(engine: Engine) -> None:
    """Make an engine known by its name.

    Raises:
        OptionError: if it is none, or another one has that name.
    """
    ENGINES.register(getattr(engine, "name", ""), engine)
