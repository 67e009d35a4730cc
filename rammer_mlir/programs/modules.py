"""Represents, as data, the foreign code that a program calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

NATIVE: frozenset[str] = frozenset({"c", "llvm", "object", "ptx", "cuda"})
"""Forms of foreign code that are linked with generated code; engines run all other forms."""

GPU_FORMS: Mapping[str, tuple[str, ...]] = {
    "nvvm": ("llvm", "ptx", "cuda"),
    "rocdl": ("llvm",),
    "emulator": ("llvm",),
}
"""Forms of foreign code that a GPU target accepts, by the first part of ``--target``.

Targets that are not listed are CPUs.
"""

CPU_FORMS = ("c", "llvm", "object", "graph", "binary")
"""Forms of foreign code that CPU targets accept."""


def forms_for(target: str) -> tuple[str, ...]:
    """Return the forms of foreign code that a target accepts; ``target`` is as in ``--target``."""
    return GPU_FORMS.get(target.partition(":")[0], CPU_FORMS)


@dataclass(frozen=True)
class Requirement:
    """A package that foreign code requires at run time.

    Attributes:
        package: name of the distribution for ``pip install``.
        version: the only suitable version; empty if any version is suitable.
        library: pattern for the end of a file's path in the package, where ``*`` matches any text.
            The file is the library that the foreign code calls; empty if the code calls no library
            of the package.
        extra: the extra of this project that installs the package; empty if no extra does.
    """

    package: str
    version: str = ""
    library: str = ""
    extra: str = ""


@dataclass(frozen=True)
class CodeModule:
    """Foreign code that is part of a program.

    Attributes:
        name: name in messages.
        form: ``c``, ``llvm``, ``object``, ``ptx`` or ``cuda`` for code that is linked with
            generated code; ``graph`` or ``binary`` for content that an engine runs.
        engine: name of the engine; empty for linked code.
        content: the graph or binary for the engine; empty for linked code.
        needs: packages that the foreign code requires at run time.
        kernels: indices of the rKernels that this module implements.
        operations: number of arithmetic operations of the module in one run of the program.
        options: values that users gave for the engine's options, as (name, text).
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
    """A stateful function of a module; the function's state is created before the first run.

    Attributes:
        module: name of the module.
        symbol: name of the function in the module.
        kernel: index of the rKernel that the function implements.
    """

    module: str
    symbol: str
    kernel: int
