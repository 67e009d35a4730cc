"""Builds Einsum: multiplies operands along equal labels, and sums over labels not in the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rammer_mlir.frontends.onnx.builders.node import Builder, Node
from rammer_mlir.frontends.onnx.builders.products import accumulator, contract, converted
from rammer_mlir.frontends.onnx.builders.structured import (
    structured,
)
from rammer_mlir.frontends.onnx.builders.values import (
    ZERO,
    Expr,
    Tensor,
    empty,
    full,
)
from rammer_mlir.passes.ir.scalar import DType, Scalar


@dataclass(frozen=True)
class _Term:
    """An operand of an einsum, with a label for each of its dimensions.

    A label is the dimension's letter in the equation, or a digit for a dimension of the ellipsis.
    """

    tensor: Tensor
    labels: tuple[str, ...]


def einsum(node: Node) -> Tensor:
    """Emit Einsum: the operands are contracted pairwise, from the left."""
    left, arrow, right = node.attribute("equation").replace(" ", "").partition("->")
    operands = node.tensors()
    names = left.split(",")
    if len(names) != len(operands):
        raise node.unsupported(
            f"its equation has {len(names)} terms, expected one for each of {len(operands)} inputs"
        )
    terms = [
        _Term(operand, _labels(text, operand.rank))
        for text, operand in zip(names, operands, strict=True)
    ]
    rank = max(len([x for x in term.labels if x.isdigit()]) for term in terms)
    result = _labels(right, rank + len(right.replace("...", ""))) if arrow else _implied(terms)
    extents: dict[str, int] = {}
    for term in terms:
        for label, size in zip(term.labels, term.tensor.shape, strict=True):
            # A dimension of size 1 is broadcast, even to size 0.
            extents[label] = size if extents.get(label, 1) == 1 else extents[label]
    kind = accumulator(operands[0].dtype)
    first = terms[0]
    if len(terms) == 1:
        return converted(_single(first, result, extents, kind), operands[0].dtype)
    for number, term in enumerate(terms[1:], start=2):
        later = {label for rest in terms[number:] for label in rest.labels} | set(result)
        seen = dict.fromkeys([*first.labels, *term.labels])
        kept = result if number == len(terms) else tuple(x for x in seen if x in later)
        first = _Term(_pair(first, term, kept, extents, kind), kept)
    return converted(first.tensor, operands[0].dtype)


def _labels(text: str, rank: int) -> tuple[str, ...]:
    """Return a label for each dimension of a tensor with ``rank`` dimensions.

    ``text`` is the tensor's term in the equation, such as ``ij`` or ``b...i``. A dimension that the
    ellipsis covers gets a digit as label: 0 for the last such dimension, 1 for the one before, etc.
    """
    if "..." not in text:
        return tuple(text)
    before, _, after = text.partition("...")
    count = rank - len(before) - len(after)
    return (*before, *(str(i) for i in reversed(range(count))), *after)


def _implied(terms: Sequence[_Term]) -> tuple[str, ...]:
    """Return the labels of the result's dimensions for an equation without ``->``.

    ``terms`` are the operands. First come the digits that label the ellipsis' dimensions, from the
    outermost dimension. Then come the letters that occur exactly once in all operands' labels, in
    alphabetical order.
    """
    every = [label for term in terms for label in term.labels]
    dots = sorted({label for label in every if label.isdigit()}, key=int, reverse=True)
    letters = {label for label in every if not label.isdigit() and every.count(label) == 1}
    return (*dots, *sorted(letters))


def _exprs(term: _Term, loops: Sequence[str], extents: dict[str, int]) -> list[Expr]:
    return [
        ZERO if size == 1 and extents[label] != 1 else loops.index(label)
        for label, size in zip(term.labels, term.tensor.shape, strict=True)
    ]


def _pair(a: _Term, b: _Term, kept: Sequence[str], extents: dict[str, int], kind: DType) -> Tensor:
    summed = [x for x in dict.fromkeys([*a.labels, *b.labels]) if x not in kept]
    loops = [*kept, *summed]
    domain = [extents[label] for label in loops]
    left, right = ((t.tensor, _exprs(t, loops, extents)) for t in (a, b))
    if summed:
        return contract(domain, len(summed), left, right, kind)

    def body(x: Scalar, y: Scalar) -> Scalar:
        return x.cast(kind) * y.cast(kind)

    return structured(domain, 0, [left, right], (empty(domain, kind), range(len(loops))), body)


def _single(term: _Term, kept: Sequence[str], extents: dict[str, int], kind: DType) -> Tensor:
    summed = [x for x in dict.fromkeys(term.labels) if x not in kept]
    loops = [*kept, *summed]
    domain = [extents[label] for label in loops]
    shape, source = domain[: len(kept)], (term.tensor, _exprs(term, loops, extents))
    if not summed:
        out = (empty(shape, kind), range(len(kept)))
        return structured(domain, 0, [source], out, lambda x: x.cast(kind))
    start = (full(shape, 0, kind), range(len(kept)))
    return structured(domain, len(summed), [source], start, lambda x, total: total + x.cast(kind))


BUILDERS: dict[str, Builder] = {"Einsum": einsum}
