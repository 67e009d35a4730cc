"""Defines an engine's inputs for creating a stateful function's state, and its results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rammer_mlir.programs.module_options import Value
from rammer_mlir.programs.modules import CodeModule


@dataclass(frozen=True)
class EntryHost:
    """The input from which an engine or linked code creates the state of a stateful function.

    Attributes:
        module: the function's module.
        symbol: the function's name in the module.
        weights: for each buffer of its rKernel, inputs first: the address of its memory if it is a
            weight, which has a constant address and content; otherwise None.
        find: returns the address of a symbol in the libraries that the module needs, or 0.
        run_calls: address of a function in the compiled program. For an engine it is ``RUN_CALLS``,
            which executes the ``CallList`` that is its state; for linked code the module's
            ``NAME_run``. 0 for ``prebuilt`` and in programs of earlier versions.
        options: values of the options that the engine declares.
        num_veus: number of vEUs of the program, the most threads that code of the grain ``device``
            may use.
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
    """A stateful function with its state: what compiled code calls, and how the state is released.

    Attributes:
        function: address of ``int32_t (void *state, int64_t rtask, void *const *buffers)``.
        state: the address that is passed as ``state``.
        close: releases the state.
        owner: an object that keeps the memory of both addresses alive.
        explain: returns the reason of the last failed call; empty if it is not known.
    """

    function: int
    state: int
    close: Callable[[], None]
    owner: object = None
    explain: Callable[[], str] = str

    def __post_init__(self) -> None:
        """Raise a TypeError if an address is no integer or a function field is not callable.

        A call of a wrong address would crash the process.
        """
        given = vars(self)
        if type(given["function"]) is not int or given["function"] < 1:
            raise TypeError(f"expected the address of a function, found {given['function']!r}")
        if type(given["state"]) is not int or given["state"] < 0:
            raise TypeError(f"expected an address as state, found {given['state']!r}")
        for name in ("close", "explain"):
            if not callable(given[name]):
                raise TypeError(f"expected a function as {name}, found {given[name]!r}")
