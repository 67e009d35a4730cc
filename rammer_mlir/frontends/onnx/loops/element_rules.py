"""Expresses an element of a node's result by elements of the node's operands.

Here, an element is a slice of a tensor: the tensor at one index of an axis, without the axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import Protocol

import onnx

from rammer_mlir.frontends.onnx.tensors import ONNX_DOMAINS

Shape = Sequence[int]
Shapes = Callable[[str], Shape | None]
"""A function that returns the static shape of a value, given by name; None if unknown."""

ELEMENTWISE = frozenset(
    (
        "Abs", "Add", "And", "Cast", "Ceil", "Celu", "Clip", "Cos", "Div", "Elu", "Equal", "Erf",
        "Exp", "Floor", "Gelu", "Greater", "GreaterOrEqual", "HardSigmoid", "HardSwish",
        "Identity", "LeakyRelu", "Less", "LessOrEqual", "Log", "Max", "Mean", "Min", "Mish",
        "Mul", "Neg", "Not", "Or", "PRelu", "Pow", "Reciprocal", "Relu", "Round", "Selu",
        "Sigmoid", "Sign", "Sin", "Softplus", "Softsign", "Sqrt", "Sub", "Sum", "Tan", "Tanh",
        "Where", "Xor",
    )
)  # fmt: skip
"""Operators with NumPy's broadcasting that compute each element independently."""

_VIEWS = frozenset(("Flatten", "Reshape", "Squeeze", "Unsqueeze"))


@dataclass(frozen=True)
class Operand:
    """An operand of a node, for a rule that computes one element of the node's result.

    Here, an element is the slice of a tensor at one index of an axis, such as the axis of time.

    Attributes:
        value: name of the operand.
        axis: the operand's axis along which elements are slices; its size may be 1. None if the
            operand lacks this axis.
        is_invariant: whether the operand has the same element at all indices of the axis.
    """

    value: str
    axis: int | None
    is_invariant: bool


class ElementWriter(Protocol):
    """Emits the nodes that compute one element of a node's result from elements of the operands.

    Here, an element is the slice of a tensor at one index of an axis, such as the axis of time.
    """

    def operand(self, operand: Operand) -> str:
        """Return the name of the operand's element at the index of the current iteration."""
        ...

    def node(self, operator: str, inputs: Sequence[str], **attributes: object) -> str:
        """Emit a node of ``operator``, and return the name of its result."""
        ...

    def transpose(self, value: str, perm: Sequence[int], *, is_invariant: bool = False) -> str:
        """Emit a transposition of ``value``; return the name of its result.

        If ``is_invariant``, ``value`` is the same in all iterations, and the transposition is
        computed once, outside of the loop.
        """
        ...

    def copy(self, node: onnx.NodeProto, inputs: Sequence[str]) -> str:
        """Emit a copy of ``node`` with operands ``inputs``; return the name of its result."""
        ...

    def reshape(self, value: str, shape: Shape, *, is_invariant: bool = False) -> str:
        """Emit a reshape of ``value`` to ``shape``; return the name of its result.

        If ``is_invariant``, ``value`` is the same in all iterations, and the reshape is computed
        once, outside of the loop.
        """
        ...


@dataclass(frozen=True)
class Rule:
    """How to compute one element of a node's result from elements of the node's operands.

    Here, an element is the slice of a tensor at one index of an axis, such as the axis of time.

    Attributes:
        operands: the operands of which an element is needed.
        write: emits the computation by the given writer, and returns the name of the result's
            element.
        is_view: whether the result's element is only a reshape or transposition of the element of
            the node's only operand.
    """

    operands: tuple[Operand, ...]
    write: Callable[[ElementWriter], str]
    is_view: bool = False


def rule_of(node: onnx.NodeProto, axis: int, shapes: Shapes) -> Rule | None:
    """Return the rule that computes an element of a node's result from elements of its operands.

    Here, an element is the slice of the result at one index of ``axis``. ``shapes`` returns the
    static shape of a value by name, or None. Return None if no rule for the node is known.
    """
    shape = shapes(node.output[0])
    if node.domain not in ONNX_DOMAINS or shape is None or len(node.output) != 1:
        return None
    if node.op_type in ELEMENTWISE:
        return _elementwise(node, axis, shape, shapes)
    if node.op_type == "Transpose":
        return _transpose(node, axis, len(shape))
    if node.op_type in _VIEWS:
        return _view(node, axis, shape, shapes)
    return _outer_product(node, axis, shapes) if node.op_type == "Einsum" else None


def _elementwise(node: onnx.NodeProto, axis: int, shape: Shape, shapes: Shapes) -> Rule | None:
    operands: list[Operand | None] = []
    for name in node.input:
        operand = _broadcast(name, axis, shape, shapes) if name else None
        if name and operand is None:
            return None
        operands.append(operand)

    def write(writer: ElementWriter) -> str:
        return writer.copy(node, [writer.operand(o) if o is not None else "" for o in operands])

    return Rule(tuple(o for o in operands if o is not None), write)


def _broadcast(name: str, axis: int, shape: Shape, shapes: Shapes) -> Operand | None:
    given = shapes(name)
    if given is None:
        return None
    own = axis - (len(shape) - len(given))
    if own < 0:
        return Operand(name, None, True)
    return Operand(name, own, given[own] != shape[axis])


def _transpose(node: onnx.NodeProto, axis: int, rank: int) -> Rule:
    given = next((list(a.ints) for a in node.attribute if a.name == "perm"), [])
    order = given or list(reversed(range(rank)))
    dropped = order[axis]
    left = [each - (each > dropped) for each in order if each != dropped]
    operand = Operand(node.input[0], dropped, False)

    def write(writer: ElementWriter) -> str:
        element = writer.operand(operand)
        is_same = left == sorted(left)
        return element if is_same else writer.transpose(element, left)

    return Rule((operand,), write, is_view=True)


def _view(node: onnx.NodeProto, axis: int, shape: Shape, shapes: Shapes) -> Rule | None:
    """Return the rule of a reshape: an element of the result is a reshape of the operand's element.

    Return None if the reshape merges or splits dimension ``axis``, or if the result has no
    elements. ``shape`` is the shape of the result.
    """
    given = shapes(node.input[0])
    before = prod(shape[:axis])
    axes = [
        number
        for number, size in enumerate(given or ())
        if size == shape[axis] and prod((given or ())[:number]) == before
    ]
    if not axes or 0 in shape:
        return None
    operand = Operand(node.input[0], axes[0], False)
    target = [*shape[:axis], *shape[axis + 1 :]]
    return Rule((operand,), lambda writer: writer.reshape(writer.operand(operand), target), True)


def _outer_product(node: onnx.NodeProto, axis: int, shapes: Shapes) -> Rule | None:
    """Return the rule of an Einsum that is an outer product; None for other equations.

    An outer product sums over no label, for example "bi,bj->bij". A slice of its result along
    ``axis`` is the broadcast product of the operands' slices.
    """
    terms, result = _equation(node)
    known = [shapes(name) or () for name in node.input]
    if not result or not all(map(_is_factor, terms, known, [result] * len(terms))):
        return None
    operands: list[Operand] = []
    for name, term, shape in zip(node.input, terms, known, strict=True):
        own = term.find(result[axis])
        size = shape[own] if own >= 0 else 1
        operands.append(Operand(name, own if own >= 0 else None, size == 1))
    if all(operand.is_invariant for operand in operands):
        return None
    labels = result[:axis] + result[axis + 1 :]

    def write(writer: ElementWriter) -> str:
        factors = [
            _factor(writer, operand, dict(zip(term, shape, strict=True)), labels)
            for operand, term, shape in zip(operands, terms, known, strict=True)
        ]
        return _product(writer, factors)

    return Rule(tuple(operands), write)


def _equation(node: onnx.NodeProto) -> tuple[list[str], str]:
    """Return the labels of each operand, and the labels of the result, of an Einsum.

    For example, "bi,bj->bij" gives ["bi", "bj"] and "bij". The result's labels are "" if the
    equation has no ``->``. If the equation has an ellipsis, ([], "") is returned.
    """
    text = next((a.s.decode() for a in node.attribute if a.name == "equation"), "")
    left, _, right = text.replace(" ", "").partition("->")
    return (left.split(","), right) if "." not in text else ([], "")


Factor = tuple[str, tuple[int, ...]]
"""A value, and its shape."""


def _is_factor(term: str, shape: Shape, result: str) -> bool:
    """Return whether the Einsum sums over no dimension of an operand.

    Dimensions of size 1 may be missing in the result.

    Args:
        term: the operand's labels.
        shape: the operand's shape.
        result: the labels of the result.
    """
    is_known = len(shape) == len(term) == len(set(term))
    return is_known and all(
        label in result or size == 1 for label, size in zip(term, shape, strict=True)
    )


def _factor(writer: ElementWriter, operand: Operand, sizes: dict[str, int], labels: str) -> Factor:
    """Emit a slice of an Einsum's operand, transposed and reshaped so that the slice broadcasts.

    Args:
        writer: emits the nodes.
        operand: the operand.
        sizes: size of each dimension of the operand, by label.
        labels: labels of the dimensions of the returned value.

    Returns:
        The name and the shape of the value. A dimension has size 1 if the operand lacks its label.
    """
    own, once = [label for label in sizes if label in labels], operand.is_invariant
    order = sorted(own, key=labels.index)
    element = writer.operand(operand)
    if len(own) < len(sizes) - (operand.axis is not None):
        element = writer.reshape(element, [sizes[label] for label in own], is_invariant=once)
    if own != order:
        perm = [own.index(label) for label in order]
        element = writer.transpose(element, perm, is_invariant=once)
    target = tuple(sizes.get(label, 1) for label in labels)
    if len(target) > len(order):
        element = writer.reshape(element, target, is_invariant=once)
    return element, target


def _product(writer: ElementWriter, factors: Sequence[Factor]) -> str:
    """Emit the broadcast product of all factors; return its name.

    Of all pairs of factors, the pair with the fewest elements in its product is multiplied first.
    """
    left = list(factors)
    while len(left) > 1:
        pairs = combinations(left, 2)
        first, second = min(pairs, key=lambda pair: prod(_broadcast_shape(*pair)))
        left = [each for each in left if each is not first and each is not second]
        shape = _broadcast_shape(first, second)
        left.append((writer.node("Mul", [first[0], second[0]]), shape))
    return left[0][0]


def _broadcast_shape(first: Factor, second: Factor) -> tuple[int, ...]:
    pairs = zip(first[1], second[1], strict=True)
    return tuple(max(pair) if 0 not in pair else 0 for pair in pairs)
