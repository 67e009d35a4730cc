"""Opens graphs that a Python function executes; a vEU that calls the function holds the GIL."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.engines.host import EntryHost, OpenEntry
from rammer_mlir.engines.python_entry import python_entry
from rammer_mlir.errors import TargetError
from rammer_mlir.programs.json_graph import ELEMENT_TYPES, Graph, GraphConstant, GraphTensor

Numbers = NDArray[Any]
"""A tensor's elements, of any of the graph's element types."""

Run = Callable[[Mapping[str, int]], None]
"""A function that runs a graph once, called with memory addresses by tensor name.

They are the addresses of all outputs, and of all inputs except weights.
"""


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
    """Return a NumPy array for a tensor whose elements are at ``address``, without a copy."""
    memory: Any = (ctypes.c_uint8 * num_bytes(tensor)).from_address(address)
    return np.ctypeslib.as_array(memory).view(dtype_of(tensor)).reshape(tensor.shape)


def read_graph(host: EntryHost) -> tuple[Graph, dict[str, Numbers]]:
    """Return the graph that a module contains, and its weights by input name, without copies.

    ``host`` has the module and the addresses of the weights.

    Raises:
        TargetError: if the module's content is not a graph.
    """
    try:
        graph = Graph.from_json(host.module.content)
    except ValueError as error:
        raise TargetError(
            f"module '{host.module.name}': expected a graph in JSON, found "
            f"{' '.join(str(error).split())}; mend the code "
            "generator, or compile the model again with this version"
        ) from error
    return graph, known_weights(host, graph)


def known_weights(host: EntryHost, graph: Graph) -> dict[str, Numbers]:
    """Return the inputs of a graph that are weights, as arrays by name, without copies.

    ``host`` has the addresses of the weights.
    """
    known = zip(graph.inputs, host.weights, strict=False)
    return {t.name: array_at(t, w) for t, w in known if w is not None}


def opened(graph: Graph, weights: Mapping[str, object], run: Run) -> OpenEntry:
    """Return an entry by which compiled code runs a graph through the Python function ``run``.

    Args:
        graph: the graph, whose inputs and outputs are the buffers that compiled code passes.
        weights: the graph's inputs that are weights, by name.
        run: runs the graph, given the addresses of the outputs, and of the inputs that are not
            weights, by name.
    """
    buffers: Sequence[GraphTensor] = (*graph.inputs, *graph.outputs)
    places = [(n, t.name) for n, t in enumerate(buffers) if t.name not in weights]

    def call(_rtask: int, addresses: Sequence[int]) -> None:
        run({name: addresses[number] for number, name in places})

    return python_entry(call, len(buffers))
