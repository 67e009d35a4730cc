"""Links external PTX modules to a program's PTX.

The definitions of functions in the modules replace the program's declarations.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from rammer_mlir.errors import TargetError
from rammer_mlir.lowering.llvm.codegen import undefined

_COMMENT = re.compile(r'("[^"\n]*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_VERSION = re.compile(r"^\s*\.version\s+(\d+)\.(\d+)[^\S\n]*$", re.MULTILINE)
_TARGET = re.compile(r"^\s*\.target\s+sm_(\d+)(\w*)[^\n]*$", re.MULTILINE)
_ADDRESS_SIZE = re.compile(r"^\s*\.address_size\s+(\d+)[^\S\n]*$", re.MULTILINE)
_FUNCTION = re.compile(
    r"(\.extern\s+)?(?:\.(?:visible|weak)\s+)?\.(?:func|entry)\s*(\([^)]*\))?\s*([$\w]+)"
    r"\s*(?:\(([^)]*)\))?[^;{(]*([;{])"
)
_VARIABLE = re.compile(
    r"(\.extern\s+)?(?:\.(?:visible|weak|common)\s+)?\.(?:global|const|shared)\s[^;={]*?"
    r"([$\w]+)\s*(?:\[\w*\]\s*)*(?:=[^;]*)?;"
)
_DECLARATION = r"\.extern \.func {name}\s*(?:\([^)]*\))?\s*;\n*"
_WIDTH = re.compile(r"\.param\s+\.[busf](\d+)\s")

_SYSTEM = frozenset(("vprintf", "malloc", "free", "__assertfail"))
"""Functions that every driver and ptxas define (CUDA C++ programming guide, PTX interoperability).
"""


@dataclass(frozen=True)
class PtxModule:
    """A module of PTX text.

    Attributes:
        name: the module's name in messages.
        text: the PTX, without comments.
        symbols: names of the functions in the module that rKernels call.
    """

    name: str
    text: str
    symbols: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str, text: str, symbols: tuple[str, ...] = ()) -> PtxModule:
        """Create a module named ``name`` from PTX text; the comments of ``text`` are removed.

        ``symbols`` are the names of the functions in the module that rKernels call.
        """
        plain = _COMMENT.sub(lambda found: found[1] or "", text)
        return cls(name, plain, symbols)

    @cached_property
    def version(self) -> tuple[int, int]:
        """The version (major, minor) of the PTX language that the text requires."""
        found = _VERSION.search(self.text)
        if found is None:
            raise self.refused("PTX that begins with '.version'", "none")
        return int(found[1]), int(found[2])

    @cached_property
    def functions(self) -> tuple[re.Match[str], ...]:
        """All declarations and definitions of functions and kernels, as matches of ``_FUNCTION``.

        The groups of a match are ``.extern``, the result, the name, the parameters, and ``;`` after
        a declaration or ``{`` before a body.
        """
        return tuple(_FUNCTION.finditer(self._outside))

    @cached_property
    def _outside(self) -> str:
        """The PTX text outside of braces, that is, without bodies of functions."""
        parts: list[str] = []
        depth = 0
        for part in re.split(r"([{}])", self.text):
            depth -= part == "}"
            if not depth:
                parts.append(part)
            depth += part == "{"
        return "".join(parts)

    def names(self) -> tuple[set[str], set[str]]:
        """Return two sets of names of functions and variables: defined, and undefined.

        A name is undefined if the text declares it ``.extern`` and does not define it.
        """
        found = [(each[1], each[3]) for each in self.functions]
        found += [(each[1], each[2]) for each in _VARIABLE.finditer(self._outside)]
        defined = {name for extern, name in found if not extern}
        return defined, {name for extern, name in found if extern} - defined

    def parameters(self, symbol: str) -> list[int] | None:
        """Return the sizes in bits of the parameters of the function ``symbol``, in order.

        The result is None if the function returns a value, or if the text does not contain the
        function.
        """
        for _, result, name, parameters, _ in (each.groups() for each in self.functions):
            if name == symbol and result is None:
                return [int(bits) for bits in _WIDTH.findall(f"{parameters or ''} ")]
        return None

    @property
    def body(self) -> str:
        """The PTX text without its header (version, target and address size)."""
        found = self.text
        for pattern in (_VERSION, _TARGET, _ADDRESS_SIZE):
            found = pattern.sub("", found, count=1)
        return f"{found.strip()}\n"

    def check(self, own: PtxModule, chip: str) -> None:
        """Check that this external PTX can be combined with ``own``, the program's PTX.

        Raises:
            TargetError: if this PTX is for a newer chip, has 32-bit addresses, uses undefined
                names, or does not define each of ``symbols`` with the parameter sizes of its
                declaration in ``own``.
        """
        target, size = _TARGET.search(self.text), _ADDRESS_SIZE.search(self.text)
        if target is None or target[2] or int(target[1]) > int(chip.removeprefix("sm_")):
            found = "none" if target is None else f"'{' '.join(target[0].split())}'"
            raise self.refused(f"PTX for {chip} or an older chip", found)
        if size is None or size[1] != "64":
            raise self.refused("addresses of 64 bits", "none" if size is None else size[1])
        for symbol in self.symbols:
            self._check_function(symbol, own)
        for name in sorted(self.names()[1] - _SYSTEM):
            raise self.refused("definitions of all that it uses", f"'.extern' '{name}'")

    def _check_function(self, symbol: str, own: PtxModule) -> None:
        if symbol not in self.names()[0]:
            raise undefined(self.name, symbol)
        expected, found = own.parameters(symbol), self.parameters(symbol)
        if expected is not None and found != expected:
            raise self.refused(
                f"a function '{symbol}' of parameters of {_listed(expected)} bits and no result",
                "one with a result" if found is None else _listed(found),
            )

    def refused(self, expected: str, found: str) -> TargetError:
        """Return an error that names this module, with the texts ``expected`` and ``found``.

        The message is "expected ``expected``, found ``found``; mend it".
        """
        return TargetError(f"module '{self.name}': expected {expected}, found {found}; mend it")


def with_device_functions(own: str, modules: Sequence[PtxModule], chip: str) -> str:
    """Return a program's PTX, with declarations replaced by the code of external modules.

    Args:
        own: PTX of the program, without comments in its header.
        modules: external PTX modules, each with a header.
        chip: the program's chip, such as ``sm_90``.

    Raises:
        TargetError: if a module is for a newer chip, does not define a function that rKernels call,
            or defines a name that the program or another module defines.
    """
    if not modules:
        return own
    program = PtxModule.of("program", own)
    for module in modules:
        module.check(program, chip)
    _check_distinct([program, *modules])
    text = own
    for symbol in (symbol for module in modules for symbol in module.symbols):
        text = re.sub(_DECLARATION.format(name=re.escape(symbol)), "", text)
    version = "{}.{}".format(*max(each.version for each in (program, *modules)))
    text = _VERSION.sub(lambda found: f"{found[0].rpartition(' ')[0]} {version}", text, count=1)
    bodies = "\n".join(module.body for module in modules)
    return _ADDRESS_SIZE.sub(lambda found: f"{found[0]}\n\n{bodies}", text, count=1)


def _check_distinct(modules: Iterable[PtxModule]) -> None:
    owners: dict[str, str] = {}
    for module in modules:
        for name in sorted(module.names()[0]):
            other = owners.setdefault(name, module.name)
            if other != module.name:
                raise module.refused("names of its own", f"'{name}', which '{other}' defines too")


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"
