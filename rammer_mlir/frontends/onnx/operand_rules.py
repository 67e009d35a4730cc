"""Checks operand shapes that ONNX's shape inference does not check, and yields problems as text.

A problem is a text for an error message, "expected ..., found ...".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Protocol

Shape = list[int]


class Operands(Protocol):
    """A node's operator, input shapes and attributes, as the functions of this module read them."""

    operator: str

    def shape(self, number: int) -> Shape | None:
        """Return the shape of input ``number``; None for an unknown shape or an omitted input."""
        ...

    def integers(self, name: str) -> list[int] | None:
        """Return attribute ``name`` as a list of integers; None if the node omits it."""
        ...

    def number(self, name: str, default: int) -> int:
        """Return attribute ``name`` as an integer, or ``default`` if the node omits it."""
        ...

    def text(self, name: str, default: str) -> str:
        """Return attribute ``name`` as text, or ``default`` if the node omits it."""
        ...


def window_ranks(node: Operands) -> Iterator[str]:
    """Yield problems unless a convolution's weights and window attributes fit the data's rank."""
    weights_at = {"QLinearConv": 3}.get(node.operator, 1)
    data, weights, kernel = node.shape(0), node.shape(weights_at), node.integers("kernel_shape")
    if data is not None and len(data) < 3:
        yield f"expected data of at least 3 dimensions, found {data}"
    if data is None or weights is None:
        return
    if len(data) != len(weights):
        yield f"expected weights of {len(data)} dimensions, like the data's, found {weights}"
    if kernel is not None and kernel != weights[2:]:
        yield f"kernel_shape: expected {weights[2:]}, the sizes of its weights, found {kernel}"
    for name, times in (("strides", 1), ("dilations", 1), ("pads", 2), ("output_padding", 1)):
        given = node.integers(name)
        if given is not None and len(given) != times * (len(data) - 2):
            yield f"{name}: expected {times * (len(data) - 2)} numbers, found {len(given)}"


def slope(node: Operands) -> Iterator[str]:
    """Yield a problem unless PRelu's slope broadcasts to the shape of the input."""
    yield from _broadcast(node, 1, "a slope", node.shape(0))


def _broadcast(node: Operands, number: int, what: str, to: Shape | None) -> Iterator[str]:
    found = node.shape(number)
    if found is None or to is None:
        return
    pairs = zip_longest(reversed(found), reversed(to), fillvalue=None)
    if any(have is not None and have not in (1, want) for have, want in pairs):
        yield f"expected {what} that broadcasts to {to}, found {found}"


def gemm(node: Operands) -> Iterator[str]:
    """Yield problems unless Gemm's factors are matrices and its addend fits their product.

    The addend must broadcast to the shape of the product.
    """
    for number in (0, 1):
        shape = node.shape(number)
        if shape is not None and len(shape) != 2:
            yield f"expected input {number} to be a matrix, found {shape}"
    left, right = node.shape(0), node.shape(1)
    if left is not None and right is not None:
        rows = left[1 if node.number("transA", 0) else 0]
        columns = right[0 if node.number("transB", 0) else 1]
        yield from _broadcast(node, 2, "an addend", [rows, columns])


def transposition(node: Operands) -> Iterator[str]:
    """Yield a problem unless Transpose's permutation contains each dimension once."""
    shape, order = node.shape(0), node.integers("perm")
    if shape is not None and order is not None and sorted(order) != list(range(len(shape))):
        yield f"perm: expected each number from 0 to {len(shape) - 1} once, found {order}"


def element_indices(node: Operands) -> Iterator[str]:
    """Yield the problems of the indices and updates of an operator such as ScatterElements.

    The indices must have the rank of the data, and must not be longer than the data except along
    the axis. The updates must have the shape of the indices.
    """
    data, indices, updates = node.shape(0), node.shape(1), node.shape(2)
    if data is not None and indices is not None:
        if len(data) != len(indices):
            yield f"expected indices of {len(data)} dimensions, like the data's, found {indices}"
            return
        axis = node.number("axis", 0) % max(1, len(data))
        if any(i > d for n, (i, d) in enumerate(zip(indices, data, strict=True)) if n != axis):
            yield f"expected indices within {data} except along axis {axis}, found {indices}"
    if indices is not None and updates is not None and indices != updates:
        yield f"expected updates of the indices' shape {indices}, found {updates}"


def slice_indices(node: Operands) -> Iterator[str]:
    """Yield a problem unless the index tuples of GatherND fit the data and its batch dimensions."""
    data, indices, batch = node.shape(0), node.shape(1), node.number("batch_dims", 0)
    if data is None or not indices:
        return
    if data[:batch] != indices[:batch]:
        yield f"expected indices of the batch dimensions {data[:batch]}, found {indices}"
    if batch + indices[-1] > len(data):
        most = len(data) - batch
        yield f"expected tuples of at most {most} indices, found {indices[-1]} in {indices}"


def lengths(node: Operands) -> Iterator[str]:
    """Yield a problem unless ReverseSequence has a length for each sequence of the batch."""
    data, found = node.shape(0), node.shape(1)
    axis = node.number("batch_axis", 1)
    if data is not None and found is not None and axis < len(data) and found != [data[axis]]:
        yield f"expected sequence_lens of shape {[data[axis]]}, found {found}"


def places(node: Operands) -> Iterator[str]:
    """Yield a problem unless MaxUnpool has an index for each element."""
    data, found = node.shape(0), node.shape(1)
    if data is not None and found is not None and data != found:
        yield f"expected indices of the data's shape {data}, found {found}"


def slice_updates(node: Operands) -> Iterator[str]:
    """Yield the problems of the indices and updates of ScatterND.

    The updates must have a slice of the data for each index tuple: for indices ``[*n, k]``, their
    shape must be ``[*n, *data[k:]]``.
    """
    data, indices, updates = node.shape(0), node.shape(1), node.shape(2)
    if data is None or indices is None or not indices:
        return
    if indices[-1] > len(data):
        yield f"expected tuples of at most {len(data)} indices, found {indices[-1]} in {indices}"
    expected = indices[:-1] + data[indices[-1] :]
    if updates is not None and updates != expected:
        yield f"expected updates of shape {expected}, found {updates}"


def channel_vectors(node: Operands) -> Iterator[str]:
    """Yield problems unless InstanceNormalization's scale and bias have an element per channel."""
    data = node.shape(0)
    if data is not None and len(data) < 3:
        yield f"expected data of at least 3 dimensions, found {data}"
    for number, name in ((1, "scale"), (2, "bias")):
        found = node.shape(number)
        if data is not None and found is not None and found != data[1:2]:
            yield f"expected a {name} of shape {data[1:2]}, found {found}"


def local_size(node: Operands) -> Iterator[str]:
    """Yield a problem unless LRN's window has at least one channel."""
    if node.number("size", 1) < 1:
        yield f"size: expected a positive number, found {node.number('size', 1)}"


def norm_order(node: Operands) -> Iterator[str]:
    """Yield a problem unless LpNormalization's p is 1 or 2."""
    if node.number("p", 2) not in (1, 2):
        yield f"p: expected 1 or 2, found {node.number('p', 2)}"


_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def recurrent(node: Operands) -> Iterator[str]:
    """Yield a problem for each operand of a recurrent layer that has a wrong shape.

    The expected shapes follow from the shape of the input and the size of the hidden state.
    """
    data, hidden_weights = node.shape(0), node.shape(2)
    for number, shape in enumerate((data, node.shape(1), hidden_weights)):
        if shape is not None and len(shape) != 3:
            yield f"expected input {number} of 3 dimensions, found {shape}"
    if data is None or hidden_weights is None:
        return
    for number, expected in enumerate(_recurrent_shapes(node, data, hidden_weights[2])):
        found = node.shape(number)
        if found is not None and found != expected:
            yield f"expected input {number} of shape {expected}, found {found}"
    size = node.number("hidden_size", hidden_weights[2])
    if size != hidden_weights[2]:
        yield f"hidden_size: expected {hidden_weights[2]}, from its weights, found {size}"


def _recurrent_shapes(node: Operands, data: Shape, hidden: int) -> Sequence[Shape]:
    directions = 2 if node.text("direction", "forward") == "bidirectional" else 1
    rows = _GATES[node.operator] * hidden
    is_batch_first = node.number("layout", 0)
    batch = data[0] if is_batch_first else data[1]
    state = [batch, directions, hidden] if is_batch_first else [directions, batch, hidden]
    return (
        data,
        [directions, rows, data[2]],
        [directions, rows, hidden],
        [directions, 2 * rows],
        [batch],
        state,
        state,
        [directions, 3 * hidden],
    )


OperandRule = Callable[[Operands], Iterator[str]]

OPERAND_RULES: Mapping[str, tuple[OperandRule, ...]] = {
    **dict.fromkeys(("Conv", "ConvInteger", "ConvTranspose", "QLinearConv"), (window_ranks,)),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), (recurrent,)),
    "GatherElements": (element_indices,),
    "GatherND": (slice_indices,),
    "Gemm": (gemm,),
    "InstanceNormalization": (channel_vectors,),
    "LRN": (local_size,),
    "LpNormalization": (norm_order,),
    "MaxUnpool": (places,),
    "PRelu": (slope,),
    "ReverseSequence": (lengths,),
    "ScatterElements": (element_indices,),
    "ScatterND": (slice_updates,),
    "Transpose": (transposition,),
}
"""Functions that yield problems of a node as texts, by operator; only the first is reported."""
