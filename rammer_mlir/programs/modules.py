"""Code from elsewhere that is part of a program, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

NATIVE: frozenset[str] = frozenset({"c", "llvm", "object", "ptx", "cuda"})
"""Forms that are linked with our own code; an engine runs the others."""

GPU_FORMS: Mapping[str, tuple[str, ...]] = {
    "nvvm": ("llvm", "ptx", "cuda"),
    "rocdl": ("llvm",),
    "emulator": ("llvm",),
}
"""Forms that GPU targets take, by how ``--target`` begins. Other targets are CPUs."""

CPU_FORMS = ("c", "llvm", "object", "graph", "binary")
"""Forms that CPUs take."""


def forms_for(target: str) -> tuple[str, ...]:
    """Return the forms of code that a target takes, which ``--target`` names so."""
    return GPU_FORMS.get(target.partition(":")[0], CPU_FORMS)


@dataclass(frozen=True)
class Requirement:
    """A package that code from elsewhere needs where it runs.

    Attributes:
        package: the distribution's name, as ``pip install`` takes it.
        version: the only version that fits; empty if any does.
        library: a file of the package, by the end of its path, whose functions the code calls;
            ``*`` stands for any text; empty if it calls none.
        extra: the extra of this project that installs the package, empty if none does.
    """

    package: str
    version: str = ""
    library: str = ""
    extra: str = ""


@dataclass(frozen=True)
class CodeModule:
    """Code from elsewhere that is part of a program.

    Attributes:
        name: in messages.
        form: ``c``, ``llvm``, ``object``, ``ptx`` or ``cuda`` of code that is linked with ours;
            ``graph`` or ``binary`` of what an engine runs.
        engine: the name of that engine, else empty.
        content: what the engine gets, else empty.
        needs: packages that it needs where it runs.
        kernels: numbers of the program's rKernels that it is.
        operations: arithmetic operations of a run that it does.
        options: values that users gave for its engine, as text, by name.
    """

    name: str
    form: str
    engine: str = ""
    content: bytes = b""
    needs: tuple[Requirement, ...] = ()
    kernels: tuple[int, ...] = ()
    operations: int = 0
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class ModuleEntry:
    """A function of a module that has a state, which is made before the first run.

    Attributes:
        module: the module's name.
        symbol: the function's name there.
        kernel: the number of the program's rKernel that it is.
    """

    module: str
    symbol: str
    kernel: int
