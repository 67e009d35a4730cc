"""Decomposes dilated convolutions to skip kernel taps that only read padding.

If a window reaches far beyond its image, whole rows or columns of its taps are in the padding, for
all results or for a range of results. Each range becomes a separate convolution with fewer taps,
and the results are concatenated. Constant kernels are sliced at compile time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, product
from math import prod

import onnx
from onnx import helper

from rammer_mlir.frontends.onnx.model import Model
from rammer_mlir.frontends.onnx.node_writer import NodeWriter
from rammer_mlir.frontends.onnx.tensors import ONNX_DOMAINS, Array, ShapeTable

_MULTIPLY_ADDS = 32
"""Number of f32 multiply-adds of a core per cycle: two AVX-512 operations."""

_WEIGHTS = 1.25
"""Number of weights that a core reads from memory per cycle."""

_OPERATOR = 10_000
"""Overhead of an additional operator in cycles."""

_GAIN = 0.9
"""Largest ratio of a decomposition's cycles to the original cycles that is worthwhile."""

_MOST_PARTS = 16
"""Largest number of convolutions per decomposition; each needs separate code."""

_MOST_GROWTH = 3
"""Largest growth factor of the total size of weights."""


@dataclass(frozen=True)
class Segment:
    """Results ``begin:end`` of a convolution along a dimension, and the taps that they need.

    The taps are ``first:last``; both ranges are half-open. All other taps read padding.
    """

    begin: int
    end: int
    first: int
    last: int

    @property
    def points(self) -> int:
        """The number of results of the segment."""
        return self.end - self.begin

    @property
    def taps(self) -> int:
        """The number of taps of each result."""
        return self.last - self.first


@dataclass(frozen=True)
class Axis:
    """A spatial dimension of a convolution.

    Attributes:
        size: extent of the image.
        out: extent of the result.
        taps: extent of the kernel.
        stride: distance between consecutive windows, in elements of the image.
        dilation: distance between consecutive taps, in elements of the image.
        low: width of the padding before the image.
    """

    size: int
    out: int
    taps: int
    stride: int
    dilation: int
    low: int

    def position(self, result: int, tap: int) -> int:
        """Return the image index that a tap reads for a result; it may be in the padding.

        ``result`` and ``tap`` are indices along this dimension.
        """
        return result * self.stride - self.low + tap * self.dilation

    def segments(self) -> list[Segment]:
        """Return maximal ranges of consecutive results that need the same taps.

        A result needs the taps that read elements of the image for it; the other taps read padding.
        The list is empty if there is a result that needs no tap.
        """
        met = [
            [tap for tap in range(self.taps) if 0 <= self.position(result, tap) < self.size]
            for result in range(self.out)
        ]
        if not all(met):
            return []
        # Tuple of half-open tap ranges: taps within the image are consecutive.
        runs = groupby(range(self.out), key=lambda result: (met[result][0], met[result][-1] + 1))
        return [Segment(run[0], run[-1] + 1, *taps) for taps, group in runs if (run := list(group))]

    def options(self) -> list[list[Segment]]:
        """Return one or two candidates for the division of the dimension into segments.

        The first candidate is a single segment with all taps that any result needs. The second
        candidate is the list that ``segments`` returns. If this list is empty, the only candidate
        is a single segment with all taps.
        """
        found = self.segments()
        if not found:
            return [[Segment(0, self.out, 0, self.taps)]]
        first, last = min(s.first for s in found), max(s.last for s in found)
        return [[Segment(0, self.out, first, last)], found]


def decompose_dilated(model: Model) -> None:
    """Replace dilated convolutions with constant kernels by convolutions of fewer taps, in place.

    A convolution is replaced only if that reduces its estimated time considerably.
    """
    if not any(_is_dilated(node) for node in model.graph.node):
        return
    table = ShapeTable(model.graph)
    values = model.constants()
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        if _is_dilated(node) and node.input[1] in values:
            nodes.extend(_Dilated(node, model, table, values[node.input[1]]).decompose())
        else:
            nodes.append(node)
    model.set_nodes(nodes)


def _is_dilated(node: onnx.NodeProto) -> bool:
    dilations = [a.ints for a in node.attribute if a.name == "dilations"]
    is_conv = node.op_type == "Conv" and node.domain in ONNX_DOMAINS
    return is_conv and any(step > 1 for steps in dilations for step in steps)


class _Dilated:
    def __init__(
        self, node: onnx.NodeProto, model: Model, table: ShapeTable, kernel: Array
    ) -> None:
        self._node = node
        self._write = NodeWriter(model, node.name)
        self._attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        self._kernel = kernel
        self._images, _, *self._space = table.shape(node.input[0])
        self._out = table.shape(node.output[0])[2:]
        self._axes = list(self._read_axes())

    def decompose(self) -> list[onnx.NodeProto]:
        """Return the nodes of the cheapest decomposition.

        Return the original node if no decomposition saves enough estimated time.
        """
        whole = [[Segment(0, axis.out, 0, axis.taps)] for axis in self._axes]
        options = [list(o) for o in product(*(axis.options() for axis in self._axes))]
        allowed = [option for option in options if self._is_allowed(option)]
        best = min(allowed, key=self._cycles, default=whole)
        if self._cycles(best) > _GAIN * self._cycles(whole):
            return [self._node]
        self._joined(best, (), self._node.output[0])
        return self._write.nodes

    def _read_axes(self) -> Iterator[Axis]:
        rank = len(self._space)
        strides = self._attributes.get("strides", [1] * rank)
        dilations = self._attributes["dilations"]
        for number, (size, out) in enumerate(zip(self._space, self._out, strict=True)):
            taps, stride, step = self._kernel.shape[2 + number], strides[number], dilations[number]
            total = max(0, (out - 1) * stride + (taps - 1) * step + 1 - size)
            yield Axis(size, out, taps, stride, step, self._low(number, total))

    def _low(self, number: int, total: int) -> int:
        """Return the width of the padding before spatial dimension ``number``.

        If ``auto_pad`` is SAME_UPPER or SAME_LOWER, ``total`` is the sum of the widths before and
        after the dimension. Other modes do not use ``total``.
        """
        mode = self._attributes.get("auto_pad", b"NOTSET")
        if mode == b"NOTSET":
            return self._attributes.get("pads", [0] * 2 * len(self._space))[number]
        # Automatic padding puts the odd element at the high end, except for SAME_LOWER.
        less = 0 if mode == b"VALID" else total // 2
        return total - less if mode == b"SAME_LOWER" else less

    def _is_allowed(self, option: Sequence[Sequence[Segment]]) -> bool:
        weights = prod(sum(s.taps for s in segments) for segments in option)
        most = _MOST_GROWTH * prod(axis.taps for axis in self._axes)
        return prod(map(len, option)) <= _MOST_PARTS and weights <= most

    def _cycles(self, option: Sequence[Sequence[Segment]]) -> float:
        """Return the estimated cycles of all convolutions of a decomposition.

        ``option`` has the segments of each spatial dimension; each combination of segments is a
        convolution.
        """
        channels = prod(self._kernel.shape[:2])
        taps = prod(sum(s.taps for s in segments) for segments in option)
        work = prod(sum(s.points * s.taps for s in segments) for segments in option)
        arithmetic = self._images * work * channels / _MULTIPLY_ADDS
        return arithmetic + taps * channels / _WEIGHTS + prod(map(len, option)) * _OPERATOR

    def _joined(
        self, option: Sequence[Sequence[Segment]], chosen: tuple[Segment, ...], result: str
    ) -> None:
        """Emit a convolution for each combination of segments, and concatenate the results.

        A segment is a range of results along a dimension, with the taps that they need. The
        function calls itself once for each segment of the next dimension, until every dimension has
        a chosen segment.

        Args:
            option: the segments of each remaining dimension, all of which are computed.
            chosen: the chosen segment of each of the dimensions before the remaining dimensions.
            result: name of the concatenation.
        """
        if not option:
            self._part(chosen, result)
            return
        (segments, *rest), axis = option, 2 + len(chosen)
        if len(segments) == 1:
            self._joined(rest, (*chosen, segments[0]), result)
            return
        parts = [self._write.fresh() for _ in segments]
        for segment, part in zip(segments, parts, strict=True):
            self._joined(rest, (*chosen, segment), part)
        self._write.named("Concat", parts, [result], axis=axis)

    def _part(self, chosen: Sequence[Segment], result: str) -> None:
        """Emit the convolution that computes the results of a combination of segments.

        ``chosen`` has a segment for each dimension; ``result`` is the name of the convolution's
        output.
        """
        image, lows, highs = self._node.input[0], list[int](), list[int]()
        for number, (axis, segment) in enumerate(zip(self._axes, chosen, strict=True)):
            begin = axis.position(segment.begin, segment.first)
            end = axis.position(segment.end - 1, segment.last - 1) + 1
            lows.append(max(0, -begin))
            highs.append(max(0, end - axis.size))
            if begin > 0 or end < axis.size:
                bounds = max(0, begin), min(end, axis.size)
                image = self._write.part(image, *bounds, axis=2 + number)
        taps = tuple(slice(segment.first, segment.last) for segment in chosen)
        kernel = self._write.constant(self._kernel[:, :, *taps])
        # Padding is explicit now, and the kernel's shape may be smaller.
        kept = {k: v for k, v in self._attributes.items() if k not in ("auto_pad", "kernel_shape")}
        inputs = [image, kernel, *self._node.input[2:]]
        self._write.named("Conv", inputs, [result], **{**kept, "pads": [*lows, *highs]})
