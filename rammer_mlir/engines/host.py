"""What a function with a state gets when it is opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rammer_mlir.programs.module_options import Value
from rammer_mlir.programs.modules import CodeModule


@dataclass(frozen=True)
class EntryHost:
    """What surrounds a function with a state.

    Attributes:
        module: that the function is of.
        symbol: its name there.
        weights: of each buffer that its rKernel takes, inputs first: the address of its memory if
            it is a weight, which keeps its place and content; else None.
        find: returns the address of a function of the libraries that the module needs, 0 if none
            has it.
        run_calls: address of the compiled function that makes the calls of a ``CallList``, which
            is its state; 0 if the module's code is linked with ours.
        options: values of the options that the engine declares.
        num_veus: vEUs of the program: how many threads code of the grain ``device`` may use.
        number: of the function among those of its module.
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
    """A function with its state.

    Attributes:
        function: address of ``int32_t (void *state, int64_t rtask, void *const *buffers)``.
        state: its first argument.
        close: ends the state.
        owner: keeps what both addresses point to.
        explain: returns why the last run failed, in words; empty if that is not known.
    """

    function: int
    state: int
    close: Callable[[], None]
    owner: object = None
    explain: Callable[[], str] = str
