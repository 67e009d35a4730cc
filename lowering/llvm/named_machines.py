"""Describes processors by name, for cross compilation."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from typing import NamedTuple

import llvmlite.binding as llvm

from rammer_mlir.errors import OptionError
from rammer_mlir.lowering.llvm.machine import LLVM_LOCK, Machine, vector_bits_of
from rammer_mlir.support.cpu_features import cpu_features

X86_64, AARCH64 = "x86_64", "aarch64"
"""Processor families, as ``platform.machine()`` names them."""


class _Feature(NamedTuple):
    """An instruction set extension.

    Attributes:
        llvm: LLVM's name of the extension.
        linux: the Linux processor flag by which an artifact records and checks the extension; empty
            if artifacts do not record the extension.
    """

    llvm: str
    linux: str = ""


_LEVELS: tuple[tuple[str, tuple[_Feature, ...]], ...] = (
    (
        "x86-64",
        (
            *map(_Feature, ("64bit", "cmov", "cx8", "fxsr", "mmx")),
            *(_Feature(name, name) for name in ("sse", "sse2")),
        ),
    ),
    (
        "x86-64-v2",
        (
            *map(_Feature, ("crc32", "cx16", "sahf", "sse3")),
            _Feature("popcnt", "popcnt"),
            _Feature("sse4.1", "sse4_1"),
            _Feature("sse4.2", "sse4_2"),
            _Feature("ssse3", "ssse3"),
        ),
    ),
    (
        "x86-64-v3",
        (
            *(_Feature(name, name) for name in ("avx", "avx2", "bmi2", "f16c", "fma", "movbe")),
            _Feature("bmi", "bmi1"),
            _Feature("lzcnt", "abm"),
            _Feature("xsave"),
        ),
    ),
    (
        "x86-64-v4",
        tuple(_Feature(f"avx512{part}", f"avx512{part}") for part in ("bw", "cd", "dq", "f", "vl")),
    ),
)
"""The levels of the x86-64 psABI, each with its additional instruction sets."""

_LEVEL_OF = {
    **dict.fromkeys(("nehalem", "westmere", "sandybridge", "ivybridge"), "x86-64-v2"),
    **dict.fromkeys(("haswell", "broadwell", "skylake", "alderlake"), "x86-64-v3"),
    **dict.fromkeys(("znver1", "znver2", "znver3"), "x86-64-v3"),
    **dict.fromkeys(("skylake-avx512", "cascadelake", "cooperlake"), "x86-64-v4"),
    **dict.fromkeys(("icelake-server", "sapphirerapids", "znver4", "znver5"), "x86-64-v4"),
}
"""The x86-64 level to which the code of a processor is limited, by LLVM's name of the processor.

The processor itself only affects the order and choice of instructions: so the requirements of an
artifact can be checked by Linux's flags.
"""


@dataclass(frozen=True)
class NamedMachine:
    """A processor that users choose by name.

    Attributes:
        name: the name that users write after ``cpu:``.
        architecture: the processor family, as ``platform.machine()`` names it.
        features: Linux's names of the instruction sets that code for the processor may use.
    """

    name: str
    architecture: str
    features: tuple[str, ...]

    @property
    def is_this(self) -> bool:
        """Whether the host, which runs this process, can execute code for the named processor."""
        return not self.lacking

    @property
    def lacking(self) -> str:
        """The reason why this machine cannot execute code for the processor; empty if it can.

        The text is a part of error messages. It names the processor that the code needs, such as
        "a processor with avx2".
        """
        if self.architecture != platform.machine():
            return f"a processor of the family {self.architecture}, found {platform.machine()}"
        missing = sorted(set(self.features) - set(cpu_features()))
        return f"a processor with {', '.join(missing)}" if missing else ""

    def machine(self) -> Machine:
        """Return the description of the processor for the code generator."""
        if self.architecture == AARCH64:
            return Machine("aarch64-unknown-linux-gnu", "generic", "+neon,+fp-armv8", 128)
        level = _LEVEL_OF.get(self.name, self.name)
        has = dict.fromkeys((feature.llvm for feature in _features(level)), True)
        with LLVM_LOCK:
            # Set every feature explicitly; LLVM lists only the features of the host's family.
            known = llvm.get_host_cpu_features() if platform.machine() == X86_64 else {}
        features = {**dict.fromkeys(known, False), **has, "prefer-256-bit": False}
        flags = ",".join(f"{'+' if on else '-'}{name}" for name, on in sorted(features.items()))
        triple = "x86_64-unknown-linux-gnu"
        cpu = self.name if known else level
        return Machine(triple, cpu, flags, vector_bits_of(triple, features))


def _features(level: str) -> tuple[_Feature, ...]:
    """Return the instruction set extensions of an x86-64 level and of all lower levels.

    ``level`` is ``x86-64``, ``x86-64-v2``, ``x86-64-v3`` or ``x86-64-v4``.
    """
    found: tuple[_Feature, ...] = ()
    for name, added in _LEVELS:
        found += added
        if name == level:
            return found
    raise AssertionError(f"no level {level}")


def machine_names() -> tuple[str, ...]:
    """Return all names that users may write after ``cpu:``.

    The names are the x86-64 levels, LLVM's names of x86-64 processors, and ``aarch64``.
    """
    return (*(name for name, _ in _LEVELS), *_LEVEL_OF, AARCH64)


def named_machine(name: str) -> NamedMachine:
    """Return a processor by its name.

    Raises:
        OptionError: if there is no processor of this name.
    """
    if name not in machine_names():
        raise OptionError(
            f"unknown target 'cpu:{name}': expected cpu for this machine, or cpu: and one of "
            f"{', '.join(machine_names())}"
        )
    if name == AARCH64:
        return NamedMachine(name, AARCH64, ("asimd",))
    features = _features(_LEVEL_OF.get(name, name))
    return NamedMachine(name, X86_64, tuple(sorted(f.linux for f in features if f.linux)))
