"""Defines the argument from which an engine opens a stateful function, and the opened function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rammer_mlir.programs.module_options import Value
from rammer_mlir.programs.modules import CodeModule


@dataclass(frozen=True)
class EntryHost:
    """A description of a stateful function, from which an engine or linked code opens the function.

    Attributes:
        module: the function's module.
        symbol: the function's name in the module.
        weights: for each buffer of the function's rKernel, inputs first: the buffer's address if
            the buffer is a weight, with a constant address and content; else None.
        find: returns the address of a symbol in the libraries that the module needs; 0 if none has
            the symbol.
        run_calls: for an engine, the address of the program's function ``RUN_CALLS``, which
            executes a ``CallList``; for linked code, the address of the module's ``NAME_run``. 0
            for ``prebuilt`` and in programs of earlier versions.
        options: values of the options that the engine declares.
        num_veus: count of vEUs of the program. Code of the grain ``device`` runs while
            no other rTask runs, and may use this many threads.
        number: index of the function in its module.
    """

    module: CodeModule
    symbol: str
    weights: Sequence[int | None]
    find: Callable[[str], int]
    run_calls: int = 0
    options: Mapping[str, Value] = field(default_factory=dict[str, Value])
    num_veus: int = 1
    number: int = 0


@dataclass(frozen=True)
class OpenEntry:
    """A stateful function with its state, after it has been opened.

    Attributes:
        function: address of the function that compiled code calls, of the C type
            ``int32_t (void *state, int64_t rtask, void *const *buffers)``.
        state: the address that compiled code passes as ``state``.
        close: releases the state.
        owner: an object that keeps the memory of both addresses alive.
        explain: returns the reason of the last failed call; an empty text if the reason is not
            known.
    """

    function: int
    state: int
    close: Callable[[], None]
    owner: object = None
    explain: Callable[[], str] = str

    def __post_init__(self) -> None:
        """Check the fields, since a call of a wrong address would crash the process.

        Raise a TypeError if ``function`` or ``state`` is no address, or ``close`` or ``explain`` is
        not callable.
        """
        given = vars(self)
        if type(given["function"]) is not int or given["function"] < 1:
            raise TypeError(f"expected the address of a function, found {given['function']!r}")
        if type(given["state"]) is not int or given["state"] < 0:
            raise TypeError(f"expected an address as state, found {given['state']!r}")
        for name in ("close", "explain"):
            if not callable(given[name]):
                raise TypeError(f"expected a function as {name}, found {given[name]!r}")
