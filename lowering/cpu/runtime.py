"""Parses the CPU runtime's functions, in the LLVM dialect, from files of MLIR text.

The text has placeholders for the symbols, numbers and byte offsets that the compiler defines.
"""

from __future__ import annotations

from pathlib import Path
from string import Template

from rammer_mlir.bindings import ir
from rammer_mlir.errors import TargetError
from rammer_mlir.lowering.llvm.templates import layout_names
from rammer_mlir.programs.native_interface import (
    BEGIN_EXCLUSIVE,
    END_EXCLUSIVE,
    EPOCH_BITS,
    FLOAT_MODE,
    JOB,
    LAUNCH,
    MOVE,
    POOL,
    REPEAT,
    REPETITION,
    SET_FLOAT_MODE,
    START,
    STOP,
    THREAD,
    VEU,
    ContextWord,
)

NANOSECONDS, WAIT, YIELD = "rammer_nanoseconds", "rammer_wait", "rammer_yield"
"""Names of the runtime's functions that generated code calls."""

_YIELD_OR_SLEEP = "rammer_yield_or_sleep"
"""Name of the function that replaces ``YIELD`` in programs with exclusive rTasks.

While an exclusive rTask runs, no other vEU runs an rTask.
"""

_FOLDER = Path(__file__).parent

_TEXTS = ("runtime.mlir", "veus.mlir", "processor_{architecture}.mlir")

_EXCLUSIVE_TEXT = "exclusive.mlir"
"""Name of the file with the functions that only programs with exclusive rTasks need."""

_FUTEX_SYSCALL = {"x86_64": 202, "aarch64": 98}
"""Number of Linux's futex system call, by architecture."""


def runtime_module(architecture: str, *, has_exclusive: bool = False) -> ir.Module:
    """Return a module with the runtime's functions.

    Args:
        architecture: the processor's architecture, ``x86_64`` or ``aarch64``.
        has_exclusive: whether the program has exclusive rTasks, which must run alone on the device;
            the module then has the functions that begin and end such an rTask.

    Raises:
        TargetError: if the architecture's system calls are not known.
    """
    if architecture not in _FUTEX_SYSCALL:
        raise TargetError(
            f"processor '{architecture}': expected one of {', '.join(_FUTEX_SYSCALL)}; compile for "
            "one of these"
        )
    names = (*_TEXTS, _EXCLUSIVE_TEXT) if has_exclusive else _TEXTS
    files = [_FOLDER / name.format(architecture=architecture) for name in names]
    template = Template("\n".join(file.read_text() for file in files))
    # Raises KeyError if the text uses an undefined name.
    return ir.Module.parse(
        template.substitute(
            _definitions(architecture), give_way=_YIELD_OR_SLEEP if has_exclusive else YIELD
        )
    )


def _definitions(architecture: str) -> dict[str, str | int]:
    """Return the values of the placeholders in the MLIR text, by the placeholder's name.

    A value is a symbol or an integer, such as an offset in bytes or the number of a system call.
    ``architecture`` is x86_64 or aarch64; the operating system is Linux.
    """
    found: dict[str, str | int] = {
        "start": START,
        "launch": LAUNCH,
        "stop": STOP,
        "repeat": REPEAT,
        "float_mode": FLOAT_MODE,
        "set_float_mode": SET_FLOAT_MODE,
        "yield_or_sleep": _YIELD_OR_SLEEP,
        "begin_exclusive": BEGIN_EXCLUSIVE,
        "end_exclusive": END_EXCLUSIVE,
        "context_pointers": 8 * ContextWord.POINTERS,
        "context_run": 8 * ContextWord.RUN,
        "context_spins": 8 * ContextWord.SPINS,
        "held": 1 << EPOCH_BITS,
        "futex_syscall": _FUTEX_SYSCALL[architecture],
    }
    layouts = {
        "pool": POOL, "thread": THREAD, "job": JOB, "veu": VEU, "repetition": REPETITION,
        "move": MOVE,
    }  # fmt: skip
    return found | layout_names(layouts)
