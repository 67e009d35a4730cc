"""Opens graphs that a vEU executes by C function calls, without the Python interpreter."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from contextlib import ExitStack

from rammer_mlir.engines.call_list import CallList
from rammer_mlir.engines.graphs.entry import Numbers, read_graph
from rammer_mlir.engines.host import EntryHost, OpenEntry
from rammer_mlir.errors import TargetError
from rammer_mlir.programs.json_graph import Graph, GraphTensor


def read_native_graph(host: EntryHost) -> tuple[Graph, dict[str, Numbers]]:
    """Return the graph that a module contains, and its weights by input name, without copies.

    ``host`` has the module and the addresses of the weights.

    Raises:
        TargetError: if the module's content is not a graph, or the compiled program lacks
            ``RUN_CALLS``.
    """
    if not host.run_calls:
        raise TargetError(
            f"module '{host.module.name}': expected a program that calls C functions, found one of "
            "an earlier version; compile the model again"
        )
    return read_graph(host)


def operands_of(graph: Graph) -> dict[int, GraphTensor]:
    """Return a graph's inputs and outputs by buffer index: inputs first, then outputs."""
    return dict(enumerate((*graph.inputs, *graph.outputs)))


def native_entry(
    host: EntryHost, calls: CallList, made: ExitStack, message_of: Callable[[int], str]
) -> OpenEntry:
    """Return an entry by which compiled code executes the call list ``calls``.

    Args:
        host: has the address of ``RUN_CALLS`` of the compiled program.
        calls: the calls of a run.
        made: frees the library's objects that the calls use. It is closed when the entry is closed,
            or when ``calls`` is garbage-collected.
        message_of: returns the library's message for a nonzero status.
    """
    close = weakref.finalize(calls, _close, made, os.getpid())
    close.atexit = False  # libraries shut down on their own, possibly before Python's exit handlers

    def explain() -> str:
        status = calls.take_status()
        return f"'{message_of(status)}'" if status else ""

    return OpenEntry(host.run_calls, calls.address, close, calls, explain)


def _close(made: ExitStack, process: int) -> None:
    if os.getpid() == process:  # a forked child has neither the library's threads nor its locks
        made.close()
