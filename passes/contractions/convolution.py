"""Matches convolutions with constant weights, and finds the elementwise operations after them."""

from __future__ import annotations

from dataclasses import dataclass

from rammer_mlir.bindings import ir
from rammer_mlir.passes.contractions.contraction import (
    Contraction,
    Terms,
    following_steps,
    multiplies_and_adds,
    terms_of,
)
from rammer_mlir.passes.ir.constant_pad import padding_of
from rammer_mlir.passes.ir.constants import ConstantArgument
from rammer_mlir.passes.ir.fills import starts_at_zero
from rammer_mlir.passes.ir.structured import Structured, is_generic, shape_of
from rammer_mlir.passes.weights.derived import DerivedWeights


@dataclass(frozen=True)
class Convolution(Contraction):
    """A convolution of floats in NCHW order with weights, and elementwise operations on its result.

    Attributes:
        image: the input without padding, [N, C, H, W].
        weight: the filters: [F, C], or [F, C, rows, columns] for a window of several elements.
        low: the number of rows of zeros above the image, and of columns of zeros left of it.
        window: the number of rows and of columns of the window.
        strides: the strides of the window along rows and along columns.
        out: the number of rows and of columns of the result.
    """

    image: ir.Value
    weight: ConstantArgument
    low: tuple[int, int]
    window: tuple[int, int]
    strides: tuple[int, int]
    out: tuple[int, int]

    @property
    def batch(self) -> int:
        """The number of images."""
        return shape_of(self.image)[0]

    @property
    def channels(self) -> int:
        """The number of channels of the image."""
        return shape_of(self.image)[1]

    @property
    def filters(self) -> int:
        """The number of channels of the result."""
        return shape_of(self.op.operation.results[0])[1]

    @property
    def work(self) -> int:
        """The number of multiplications per output pixel and input channel, over all filters."""
        return self.filters * self.window[0] * self.window[1]

    @property
    def kind(self) -> object:
        """A key that is equal for convolutions that can be merged.

        Such convolutions read the same image with the same strides, their results have the same
        numbers of rows and columns, and the elementwise operations after them differ in weights
        only.
        """
        return "convolution", self.image, self.strides, self.out, super().kind


def find_convolution(op: ir.OpView, weights: DerivedWeights) -> Convolution | None:
    """Return the convolution with constant weights that an operation computes, or None.

    Return None if the operation is no convolution of a 4-dimensional image of floats with weights,
    if its initial tensor is not zero, or if its loops have another order than batch, filters, rows,
    columns, reductions.
    """
    if not is_generic(op) or not multiplies_and_adds(op):
        return None
    reading = Structured(op)
    if len(reading.inputs) != 2 or reading.inputs[1] not in weights or not starts_at_zero(reading):
        return None
    if len(reading.parallel) < 5 or any(reading.parallel[4:]) or not all(reading.parallel[:4]):
        return None
    terms = [[terms_of(expr) for expr in map_.results] for map_ in reading.maps]
    axes = [_axis(terms[0][place], place) for place in (2, 3) if len(terms[0]) == 4]
    rows, columns = axes if len(axes) == 2 else (None, None)
    if rows is None or columns is None or not _has_usual_order(terms, rows, columns):
        return None
    window = tuple(
        1 if axis.loop is None else reading.extents[axis.loop] for axis in (rows, columns)
    )
    strides = rows.stride, columns.stride
    image, low = _without_padding(reading.inputs[0])
    out = shape_of(op.operation.results[0])[2:]
    return Convolution(
        op, following_steps(op, weights), image, weights[reading.inputs[1]], low,
        (window[0], window[1]), strides, (out[0], out[1]),
    )  # fmt: skip


@dataclass(frozen=True)
class _Axis:
    """The window of a convolution along the rows or the columns of the image.

    Attributes:
        stride: the distance between adjacent windows, in elements of the image.
        loop: the index of the loop over the window's elements; None if the window has one element.
    """

    stride: int
    loop: int | None


def _axis(terms: Terms | None, parallel: int) -> _Axis | None:
    """Return the convolution window that reads an image at ``stride * d[parallel] + d[loop]``.

    ``terms`` contains the coefficients of the index expression of the image's rows or columns,
    ``parallel`` is the index of the loop over the result's rows or columns. A window of one element
    has no ``d[loop]``. Return None for any other expression, such as that of a dilated window.
    """
    if terms is None or terms.get(parallel, 0) < 1:
        return None
    others = [(loop, factor) for loop, factor in terms.items() if loop != parallel]
    if not others:
        return _Axis(terms[parallel], None)
    if len(others) > 1 or others[0][1] != 1 or others[0][0] < 5:
        return None
    return _Axis(terms[parallel], others[0][0])


def _has_usual_order(terms: list[list[Terms | None]], rows: _Axis, columns: _Axis) -> bool:
    """Whether the loops run over images, filters, rows, columns, channels, and then the window.

    ``terms`` lists the coefficients of the index expressions of the image, the weight and the
    result.
    """
    image, kernel, out = terms
    window = [axis.loop for axis in (rows, columns) if axis.loop is not None]
    return (
        out == [{0: 1}, {1: 1}, {2: 1}, {3: 1}]
        and image[:2] == [{0: 1}, {4: 1}]
        and kernel == [{1: 1}, {4: 1}, *({loop: 1} for loop in window)]
        and window == list(range(5, 5 + len(window)))
    )


def _without_padding(image: ir.Value) -> tuple[ir.Value, tuple[int, int]]:
    """Return the image before its rows and columns were padded with zeros, and the padding.

    The padding is the number of rows of zeros above the image and of columns of zeros left of the
    image. If ``image`` is not computed by such a padding, return ``image`` and (0, 0).
    """
    pad = padding_of(image)
    if pad is None or not pad.is_zero or any((*pad.low[:2], *pad.high[:2])):
        return image, (0, 0)
    return pad.source, (pad.low[2], pad.low[3])
