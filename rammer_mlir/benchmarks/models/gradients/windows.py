"""Define the gradient rules of convolutions and of pooling.

In the rules, ``dy`` is the gradient of the loss with respect to the operator's result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rammer_mlir.benchmarks.models.builder import Value
from rammer_mlir.benchmarks.models.gradients.graph import ExtendedGraph, Node

Gradients = Sequence[Value | None]


@dataclass(frozen=True)
class _Window:
    """The window parameters of a convolution or a pooling; each list is per spatial dimension.

    ``pads`` has two elements per spatial dimension: first the padding at the beginning of every
    dimension, then the padding at the end of every dimension.
    """

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    pads: list[int]

    def uncovered(self, sizes: Sequence[int], results: Sequence[int]) -> list[int]:
        """Return the number of elements at the end of the padded input that no window covers.

        The result has a number for each spatial dimension, for example 1 for a size of 4, a window
        of 3 and a stride of 2.

        Args:
            sizes: sizes of the input's spatial dimensions.
            results: sizes of the output's spatial dimensions.
        """
        begins, ends = self.pads[: len(sizes)], self.pads[len(sizes) :]
        spans = zip(sizes, results, self.kernel, self.strides, self.dilations, strict=True)
        return [
            size + begin + end - ((result - 1) * stride + (kernel - 1) * dilation + 1)
            for (size, result, kernel, stride, dilation), begin, end in zip(
                spans, begins, ends, strict=True
            )
        ]


def _window(node: Node, kernel: Sequence[int]) -> _Window:
    rank = len(kernel)
    if (mode := node.text("auto_pad", "NOTSET")) not in ("NOTSET", "VALID"):
        raise node.refuse("explicit pads", f"auto_pad '{mode}'")
    if node.integer("ceil_mode", 0):
        raise node.refuse("ceil_mode 0", 1)
    return _Window(
        node.integers("kernel_shape", kernel),
        node.integers("strides", [1] * rank),
        node.integers("dilations", [1] * rank),
        node.integers("pads", [0] * 2 * rank),
    )


def conv(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradients of a convolution's input, filters and bias.

    The input's gradient is the transposed convolution of ``dy`` with the filters. The filters'
    gradient is the convolution of the input with ``dy``. The bias's gradient is the sum of ``dy``
    for each channel. A convolution with several groups is refused.
    """
    (dy,) = dys
    assert dy is not None
    x, weight = node.operand(0), node.operand(1)
    if (groups := node.integer("group", 1)) != 1:
        raise node.refuse("group 1", groups)
    window = _window(node, weight.shape[2:])
    dx = _spread(g, dy, weight, window, x.shape, 1)
    found = [dx, _filters(g, x, dy, weight, window)]
    if len(node.inputs) > 2:
        found.append(g.reduced("ReduceSum", dy, [0, *range(2, len(dy.shape))], keepdims=0))
    return found


def _spread(
    g: ExtendedGraph, dy: Value, weight: Value, window: _Window, shape: Sequence[int], group: int
) -> Value:
    """Return the gradient of a convolution's input, which has the shape ``shape``.

    The gradient is the transposed convolution of ``dy``, the gradient of the convolution's result,
    with the filters ``weight`` in ``group`` groups. ConvTranspose's ``pads`` remove the elements
    that belong to the input's padding.

    If no window covers the last k elements of the padded input along a dimension, the transposed
    convolution gives k fewer elements there. Then ``pads`` are smaller by k at the end of that
    dimension. If the padding at the end has fewer than k elements, zeros are appended for the
    elements of the input that no window covers. (ConvTranspose's ``output_padding`` cannot append
    them: it must be less than a stride.)
    """
    uncovered = window.uncovered(shape[2:], dy.shape[2:])
    rank = len(uncovered)
    ends = window.pads[rank:]
    # If no window reaches the padding's end, the transposed convolution is shorter by as much.
    cut = [max(end - missed, 0) for end, missed in zip(ends, uncovered, strict=True)]
    missing = [max(missed - end, 0) for end, missed in zip(ends, uncovered, strict=True)]
    found = g.op(
        "ConvTranspose", dy, weight,
        kernel_shape=window.kernel, strides=window.strides, dilations=window.dilations,
        pads=[*window.pads[:rank], *cut], group=group,
    )  # fmt: skip
    # Input elements that no window reaches have the gradient zero.
    if not any(missing):
        return found
    return g.op("Pad", found, g.integers(*[0] * (len(dy.shape) + 2), *missing))


def _filters(g: ExtendedGraph, x: Value, dy: Value, weight: Value, window: _Window) -> Value:
    """Return the gradient of a convolution's filters.

    The gradient is the convolution of ``x``, the convolution's input, with ``dy``. In this
    convolution, batch and channels change places, and so do strides and dilations. If no window
    covers the last elements of the padded input, the result has more taps than the filters; the
    extra taps are cut off.
    """
    swap = [1, 0, *range(2, len(x.shape))]
    found = g.op(
        "Conv", g.op("Transpose", x, perm=swap), g.op("Transpose", dy, perm=swap),
        kernel_shape=list(dy.shape[2:]), strides=window.dilations, dilations=window.strides,
        pads=window.pads,
    )  # fmt: skip
    axes = [a for a in range(2, len(swap)) if found.shape[a] != weight.shape[a]]
    # Only the spatial dimensions that have extra taps.
    if axes:
        ends = g.integers(*(weight.shape[axis] for axis in axes))
        found = g.op("Slice", found, g.integers(*[0] * len(axes)), ends, g.integers(*axes))
    return g.op("Transpose", found, perm=swap)


def max_pool(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradient of MaxPool's input.

    Each element of ``dy``, the gradient of the result, is added at the position of its window's
    maximum in a tensor of zeros.
    """
    dy, x = dys[0], node.operand(0)
    assert dy is not None
    if node.integer("storage_order", 0):
        raise node.refuse("storage_order 0", 1)
    # MaxPool's second output has flat indices into the whole tensor.
    indices = g.reshape(g.second_output(node), -1)
    zeros = g.zeros([math.prod(x.shape)], dy)
    flat = g.op("ScatterElements", zeros, indices, g.reshape(dy, -1), axis=0, reduction="add")
    return [g.reshape(flat, *x.shape)]


def average_pool(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradient of AveragePool's input.

    Each element of ``dy``, the gradient of the result, is split equally among the elements that
    were averaged for it.
    """
    (dy,) = dys
    assert dy is not None
    x = node.operand(0)
    window = _window(node, node.integers("kernel_shape", []))
    channels = x.shape[1]
    ones = np.ones([channels, 1, *window.kernel], g.dtype(x).name)
    # Borders have fewer elements if the padding does not count.
    counts = _counts(window, x.shape[2:], dy.shape[2:], node.integer("count_include_pad", 0) == 1)
    shares = g.op("Div", dy, g.constant(counts.astype(g.dtype(x).name), "counts"))
    return [_spread(g, shares, g.constant(ones, "ones"), window, x.shape, channels)]


def _counts(
    window: _Window, sizes: Sequence[int], results: Sequence[int], with_pads: bool
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return the count of elements that each window averages, an array over the output's positions.

    The array has the output's spatial dimensions. Elements of the padding count only if
    ``with_pads`` is true.
    """
    found = np.ones([1] * len(sizes))
    for axis, size in enumerate(sizes):
        starts = np.arange(results[axis]) * window.strides[axis] - window.pads[axis]
        taps = starts[:, np.newaxis] + np.arange(window.kernel[axis]) * window.dilations[axis]
        inside = (taps >= 0) & (taps < size) | with_pads
        shape = [-1 if other == axis else 1 for other in range(len(sizes))]
        found = found * inside.sum(axis=1).reshape(shape)
    return found


def global_average_pool(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradient of GlobalAveragePool's input.

    The gradient of each channel's mean is split equally among the channel's elements.
    """
    (dy,) = dys
    assert dy is not None
    x = node.operand(0)
    shares = g.op("Mul", dy, g.scalar(1 / math.prod(x.shape[2:]), dy))
    return [g.op("Expand", shares, g.integers(*x.shape))]
