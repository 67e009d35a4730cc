"""Entries of graphs that are run by calls from a vEU into Python, holding the GIL."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.engines.host import EntryHost, OpenEntry
from rammer_mlir.errors import TargetError
from rammer_mlir.programs.json_graph import ELEMENT_TYPES, Graph, GraphConstant, GraphTensor

Numbers = NDArray[Any]
"""The elements of a tensor, of any of the graph's types."""

Run = Callable[[Mapping[str, int]], None]
"""A function that runs a graph once.

It gets the address of each input that is no weight, and of each output, by name.
"""

_FAILED = 1

_RUN = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)

_log = logging.getLogger("rammer_mlir")


def dtype_of(tensor: GraphTensor | GraphConstant) -> np.dtype[Any]:
    """Return the NumPy type of a tensor's elements."""
    return np.dtype(ELEMENT_TYPES[tensor.element_type])


def num_bytes(tensor: GraphTensor) -> int:
    """Return the size of a tensor in bytes."""
    return prod(tensor.shape) * dtype_of(tensor).itemsize


def constant_array(constant: GraphConstant) -> Numbers:
    """Return a constant of a graph as an array of its shape."""
    return np.array(constant.values, dtype_of(constant)).reshape(constant.shape)


def array_at(tensor: GraphTensor, address: int) -> Numbers:
    """Return an array that views the memory of a tensor."""
    memory: Any = (ctypes.c_uint8 * num_bytes(tensor)).from_address(address)
    return np.ctypeslib.as_array(memory).view(dtype_of(tensor)).reshape(tensor.shape)


def read_graph(host: EntryHost) -> tuple[Graph, dict[str, Numbers]]:
    """Return the graph of a module, and views of its weights by name.

    Raises:
        TargetError: if the module is not a graph.
    """
    try:
        graph = Graph.from_json(host.module.content)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TargetError(
            f"module '{host.module.name}': expected a graph in JSON, found {error}; compile the "
            "model again"
        ) from error
    return graph, known_weights(host, graph)


def known_weights(host: EntryHost, graph: Graph) -> dict[str, Numbers]:
    """Return views of the weights among a graph's inputs, by name."""
    known = zip(graph.inputs, host.weights, strict=False)
    return {t.name: array_at(t, w) for t, w in known if w is not None}


def opened(host: EntryHost, graph: Graph, weights: Mapping[str, object], run: Run) -> OpenEntry:
    """Return the entry of a graph that a Python function runs.

    Args:
        host: host of the module's function.
        graph: the graph.
        weights: weights by the names of their inputs.
        run: runs the graph; it is kept alive by the entry.
    """
    buffers: Sequence[GraphTensor] = (*graph.inputs, *graph.outputs)
    places = [(n, t.name) for n, t in enumerate(buffers) if t.name not in weights]

    def call(state: int, rtask: int, pointers: int) -> int:
        try:
            found = (ctypes.c_void_p * len(buffers)).from_address(pointers)
            # ctypes reads a null pointer as None.
            run({name: found[number] or 0 for number, name in places})
        except Exception as error:  # an exception must not unwind through a vEU's native frames
            _log.error("module '%s': %s: %s", host.module.name, type(error).__name__, error)
            return _FAILED
        return 0

    callback = _RUN(call)
    function = ctypes.cast(callback, ctypes.c_void_p).value or 0
    return OpenEntry(function, 0, lambda: None, callback)
