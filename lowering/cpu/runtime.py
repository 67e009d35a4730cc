"""The CPU runtime: ``runtime.mlir`` with the symbols and numbers of the native interface."""

from __future__ import annotations

from pathlib import Path
from string import Template

from rammer_mlir.bindings import ir, llvm
from rammer_mlir.errors import TargetError
from rammer_mlir.lowering.llvm.templates import layout_names
from rammer_mlir.passes.ir.entry import symbol_name
from rammer_mlir.programs.native_interface import (
    BEGIN_EXCLUSIVE,
    END_EXCLUSIVE,
    LAUNCH,
    MOVE,
    POOL,
    REPEAT,
    REPETITION,
    START,
    STOP,
    THREAD,
    ContextWord,
)

NANOSECONDS, WAIT, PAUSE = "rammer_nanoseconds", "rammer_wait", "rammer_pause"
"""Functions of the runtime that dispatch code calls, and the one that spinning threads call."""

SLEEPING_WAIT = "rammer_wait_or_sleep"
"""What dispatch code of programs with exclusive rTasks calls instead of ``WAIT``."""

_TEXT = Path(__file__).with_name("runtime.mlir")

_EXCLUSIVE_TEXT = Path(__file__).with_name("exclusive.mlir")
"""Functions of programs with exclusive rTasks."""

_FUTEX_SYSCALL = {"x86_64": 202, "aarch64": 98}
"""Number of Linux' futex call."""

_PAUSE_HINT = {"x86_64": "llvm.x86.sse2.pause"}
"""Intrinsic that tells the processor that a thread spins."""


def runtime_module(architecture: str, *, has_exclusive: bool = False) -> ir.Module:
    """Return a module with the runtime's functions.

    Args:
        architecture: of the processor.
        has_exclusive: whether the program has exclusive rTasks, and so calls functions for them.

    Raises:
        TargetError: if the architecture's system calls are not known.
    """
    if architecture not in _FUTEX_SYSCALL:
        raise TargetError(
            f"processor '{architecture}': expected one of {', '.join(_FUTEX_SYSCALL)}; compile for "
            "one of these"
        )
    texts = (_TEXT, _EXCLUSIVE_TEXT) if has_exclusive else (_TEXT,)
    template = Template("".join(text.read_text() for text in texts))
    # Raises KeyError if the text has a name that is not defined here.
    module = ir.Module.parse(template.substitute(_definitions(architecture)))
    if architecture in _PAUSE_HINT:
        _insert_hint(module, _PAUSE_HINT[architecture])
    return module


def _definitions(architecture: str) -> dict[str, str | int]:
    """Return what the names in the runtime's text stand for."""
    found: dict[str, str | int] = {
        "start": START,
        "launch": LAUNCH,
        "stop": STOP,
        "repeat": REPEAT,
        "wait_or_sleep": SLEEPING_WAIT,
        "begin_exclusive": BEGIN_EXCLUSIVE,
        "end_exclusive": END_EXCLUSIVE,
        "context_pointers": 8 * ContextWord.POINTERS,
        "context_run": 8 * ContextWord.RUN,
        "futex_syscall": _FUTEX_SYSCALL[architecture],
    }
    layouts = {"pool": POOL, "thread": THREAD, "repetition": REPETITION, "move": MOVE}
    return found | layout_names(layouts)


def _insert_hint(module: ir.Module, intrinsic: str) -> None:
    (pause,) = (op for op in module.body.operations if symbol_name(op) == PAUSE)
    with ir.InsertionPoint.at_block_terminator(pause.regions[0].blocks[0]):
        llvm.CallIntrinsicOp(None, intrinsic, [], [], [])
