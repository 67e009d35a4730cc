"""Lets engines compile external modules at compile time instead of at load time."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from rammer_mlir.engines.engine import ENGINES
from rammer_mlir.engines.host import EntryHost
from rammer_mlir.engines.requirements import check_needs, find_function, open_libraries
from rammer_mlir.engines.table import Weights, options_of
from rammer_mlir.programs.modules import CodeModule, ModuleEntry

Prebuilt = Callable[[Sequence[EntryHost]], CodeModule | None]


def prebuilt(
    modules: Sequence[CodeModule],
    entries: Sequence[ModuleEntry],
    weights: Sequence[Weights],
    num_veus: int,
) -> tuple[CodeModule, ...]:
    """Return a program's modules, rebuilt by the engines that can compile modules at compile time.

    Args:
        modules: modules of the program.
        entries: stateful functions of the program.
        weights: for each function and each of its buffers, the address of the buffer if it is a
            weight, else None.
        num_veus: count of vEUs of the program.

    Raises:
        RammerError: if a package is missing, or an engine fails.
    """
    known = list(zip(entries, weights, strict=True))
    found: list[CodeModule] = []
    for module in modules:
        mine = [each for each in known if each[0].module == module.name]
        engine = ENGINES.get(module.engine) if module.engine and mine else None
        make: Prebuilt | None = getattr(engine, "prebuilt", None)
        made = None if make is None else make(_hosts(module, mine, num_veus))
        found.append(made or module)
    return tuple(found)


def _hosts(
    module: CodeModule, entries: Sequence[tuple[ModuleEntry, Weights]], num_veus: int
) -> list[EntryHost]:
    libraries = _Libraries(module)
    options = options_of(module, ENGINES.get(module.engine))
    return [
        EntryHost(module, entry.symbol, weights, libraries.find, 0, options, num_veus, number)
        for number, (entry, weights) in enumerate(entries)
    ]


@dataclass(frozen=True)
class _Libraries:
    """The libraries of a module, opened on the first look-up of a symbol."""

    module: CodeModule

    @cached_property
    def opened(self) -> list[ctypes.CDLL]:
        check_needs([self.module])
        return open_libraries(self.module)

    def find(self, symbol: str) -> int:
        """Return the address of the symbol ``symbol``; 0 if none of the libraries has it."""
        return find_function(self.opened, symbol)
