"""Run a function in a child process: its memory is freed, and its crash does not end the caller."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Generic, TypeVar

from rammer_mlir.errors import RammerError

_Argument = TypeVar("_Argument")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Failure:
    """The reason, as a line of text, why a child process returned no result."""

    message: str


@dataclass(frozen=True)
class _Success(Generic[_Result]):
    result: _Result


def in_child(
    work: Callable[[_Argument], _Result], argument: _Argument, timeout: float
) -> _Result | Failure:
    """Return ``work(argument)``, computed in a new process within ``timeout`` seconds.

    If the process crashes, raises an exception or exceeds the time, the result is a ``Failure``.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(work, argument, sender))
    child.start()
    sender.close()
    try:
        if not receiver.poll(timeout):
            return Failure(f"no result after {timeout:.0f} s")
        answer: _Success[_Result] | Failure = receiver.recv()
        return answer if isinstance(answer, Failure) else answer.result
    except EOFError:
        child.join()
        return Failure(f"process ended with status {child.exitcode}")
    finally:
        child.kill()
        child.join()


def _child(work: Callable[[_Argument], object], argument: _Argument, sender: Connection) -> None:
    try:
        sender.send(_Success(work(argument)))
    except RammerError as error:
        sender.send(Failure(str(error)))
