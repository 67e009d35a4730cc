"""Fills the table ``rammer_modules``, through which compiled code calls stateful functions.

The table is a part of the compiled program. It has a row for each stateful function, with the
function's address and state.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

from rammer_mlir.engines.engine import ENGINES, Engine
from rammer_mlir.engines.host import EntryHost, OpenEntry
from rammer_mlir.engines.native import open_native
from rammer_mlir.engines.openmp import pause_before_forks
from rammer_mlir.engines.requirements import check_needs, find_function, open_libraries
from rammer_mlir.errors import RammerError, TargetError
from rammer_mlir.programs.module_options import Value, complete
from rammer_mlir.programs.modules import NATIVE, CodeModule, ModuleEntry
from rammer_mlir.programs.native_interface import MODULE_WORDS, ModuleWord
from rammer_mlir.support.failures import FAILURES

Weights = Sequence[int | None]
"""For each buffer of an rKernel: the address of its memory if it is a weight, else None."""


class OpenModules:
    """The states of a program's stateful functions, from the load of the program to its closing.

    The states belong to the process that created them; after a fork, the child creates new states.
    """

    def __init__(
        self,
        modules: Sequence[CodeModule],
        entries: Sequence[ModuleEntry],
        weights: Sequence[Weights],
        table: int,
        num_veus: int = 1,
    ) -> None:
        """Create the states of all stateful functions, and store them in the program's table.

        Args:
            modules: modules of the program.
            entries: stateful functions, in the order of the table's rows.
            weights: for each function and each of its buffers, the address of the buffer if it is a
                weight, else None.
            table: the address of the table ``rammer_modules``.
            num_veus: count of vEUs of the program.

        Raises:
            RammerError: if a package is missing, or a state cannot be created.
        """
        check_needs(modules)
        self._open: list[OpenEntry] = []
        self._kernels = [entry.kernel for entry in entries]
        self._libraries = {module.name: open_libraries(module) for module in modules}
        self._num_veus = num_veus
        self._numbers: dict[str, int] = {}
        self.seconds: dict[str, float] = {}
        by_name = {module.name: module for module in modules}
        for libraries in self._libraries.values():
            pause_before_forks(libraries)
        rows = (ctypes.c_uint64 * MODULE_WORDS * len(entries)).from_address(table)
        try:
            for entry, row, known in zip(entries, rows, weights, strict=True):
                self._enter(by_name[entry.module], entry, row, known)
        # Also on KeyboardInterrupt: opened libraries may have started threads.
        except BaseException:
            self.close()
            raise

    def _enter(
        self, module: CodeModule, entry: ModuleEntry, row: ctypes.Array[ctypes.c_uint64], w: Weights
    ) -> None:
        begin = time.perf_counter()
        find = partial(find_function, self._libraries[module.name])
        number = self._numbers.setdefault(module.name, 0)
        self._numbers[module.name] += 1
        host = EntryHost(
            module, entry.symbol, w, find, row[ModuleWord.RUN], num_veus=self._num_veus,
            number=number,
        )  # fmt: skip
        if module.form in NATIVE:
            addresses = [row[ModuleWord[name]] for name in ("OPEN", "RUN", "CLOSE")]
            opened = open_native(host, *addresses)
        else:
            engine = ENGINES.get(module.engine)
            opened = _opened(engine, replace(host, options=options_of(module, engine)))
        self._open.append(opened)
        row[ModuleWord.FUNCTION], row[ModuleWord.STATE] = opened.function, opened.state
        spent = self.seconds.get(module.name, 0.0) + time.perf_counter() - begin
        self.seconds[module.name] = spent

    def explain(self, kernel: int) -> str:
        """Return the reason why the rKernel with index ``kernel`` failed last; "" if unknown."""
        entries = zip(self._kernels, self._open, strict=True)
        return next(filter(None, (_reason(e) for k, e in entries if k == kernel)), "")

    def close(self) -> None:
        """Release all states; the program must not run afterwards."""
        while self._open:
            self._open.pop().close()


def _reason(entry: OpenEntry) -> str:
    """Return the reason of the last failure of a stateful function, as its engine explains it.

    ``entry`` is the opened function. If the explanation raises an exception, return a text about
    this exception instead.
    """
    try:
        return str(entry.explain())
    except Exception as error:
        return f"a failure whose explanation raises {type(error).__name__}: {error}"


def _opened(engine: Engine, host: EntryHost) -> OpenEntry:
    """Open the function that ``host`` describes in an engine; return the engine's entry.

    Raises:
        RammerError: if the engine raises a RammerError.
        TargetError: if the engine raises another exception, or does not return an ``OpenEntry``.
    """
    try:
        opened = cast("object", engine.open(host))
    except (RammerError, MemoryError):
        raise
    except FAILURES as error:
        reason = " ".join(str(error).split())[:200]
        raise _no_function(engine, host, f"{type(error).__name__}: {reason}") from error
    if not isinstance(opened, OpenEntry):
        raise _no_function(engine, host, type(opened).__name__)
    return opened


def _no_function(engine: Engine, host: EntryHost, found: str) -> TargetError:
    return TargetError(
        f"module '{host.module.name}': expected engine '{engine.name}' to return an OpenEntry for "
        f"'{host.symbol}', found {found}; mend the engine, or compile with another code generator"
    )


def options_of(module: CodeModule, engine: Engine) -> dict[str, Value]:
    """Return the values of an engine's options for a module; options without a value have defaults.

    Raises:
        TargetError: if the engine refuses a value, for example because its version has changed.
    """
    try:
        return complete(getattr(engine, "options", ()), dict(module.options))
    except ValueError as error:
        raise TargetError(
            f"module '{module.name}': expected options that engine '{engine.name}' takes, found "
            f"{dict(module.options)}; compile the model again"
        ) from error


def check_available(modules: Iterable[CodeModule]) -> None:
    """Check that the packages, libraries and engines of modules are usable on this machine.

    Raises:
        RammerError: if a module's requirement is unmet; the message names the module.
    """
    for module in modules:
        check_needs([module])
        open_libraries(module)
        if module.engine:
            ENGINES.get(module.engine)


def weights_of(
    entries: Sequence[ModuleEntry], operands: Mapping[int, Sequence[Weights]]
) -> list[Weights]:
    """Return, for each stateful function, the addresses of the buffers that are fixed weights.

    All rOperators of an rKernel share the function's state. A buffer has an address in the result
    only if it is the same weight in all these rOperators; else None.

    Args:
        entries: stateful functions.
        operands: by rKernel index: for each rOperator with this rKernel, the address of each buffer
            that is a weight, and None for each other buffer.
    """
    found: list[Weights] = []
    for entry in entries:
        # All rOperators of an rKernel share the state, which may pack only their common weights.
        columns = zip(*operands[entry.kernel], strict=True)
        found.append([column[0] if len(set(column)) == 1 else None for column in columns])
    return found
