"""Decomposes ConvTranspose into convolutions of stride 1, without multiplications by zeros.

A phase consists of the outputs whose positions are equal modulo the strides; they depend on the
same taps of the kernel. There are two decompositions, which both interleave the phases:

- A convolution for each phase reads the taps of the phase. Constant kernels are sliced at compile
  time.
- A convolution of size 1 multiplies the input by all taps, which are its output channels. A phase
  is the sum of the results of its taps, shifted by their positions. This decomposition is used in
  two cases: for few output channels, where a convolution per phase would leave lanes of the vector
  registers empty, and for small inputs, where a convolution per phase would multiply much padding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd, prod

import numpy as np
import onnx
from onnx import helper

from rammer_mlir.frontends.onnx.limits import require_few_nodes
from rammer_mlir.frontends.onnx.model import Model
from rammer_mlir.frontends.onnx.node_writer import NodeWriter
from rammer_mlir.frontends.onnx.tensors import ShapeTable, dtype_of, label
from rammer_mlir.frontends.onnx.well_formed import naming

MOST_TAPS = 64
"""Largest number of taps of the decomposition by products; each tap is a node."""

MOST_PRODUCT_BYTES = 1 << 20
"""Largest size of the products of all taps, which a second-level cache holds."""


def decompose_transposed(model: Model) -> bool:
    """Replace every ConvTranspose by convolutions in place; return whether a node was replaced.

    Shapes must be static.
    """
    if not any(node.op_type == "ConvTranspose" for node in model.graph.node):
        return False
    table = ShapeTable(model.graph)
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        if node.op_type == "ConvTranspose":
            with naming(node):
                transposed = _Transposed(node, model, table)
                require_few_nodes(label(node), len(nodes) + transposed.num_parts)
                nodes.extend(transposed.decompose())
        else:
            nodes.append(node)
    model.set_nodes(nodes)
    return True


@dataclass(frozen=True)
class _Phase:
    """The taps of a ConvTranspose that one phase of its outputs reads, along a dimension.

    A phase has the outputs with equal index modulo the stride: phase ``p`` has the outputs ``p``,
    ``p + stride``, ``p + 2 * stride``, ...

    Attributes:
        start: index of the phase's first tap in the flipped kernel.
        taps: count of the phase's taps.
        step: distance between consecutive taps of the phase, in taps of the kernel.
        spacing: distance between the inputs that consecutive taps read, in elements.
        offset: index of the input that the first tap reads for the first output; may be negative.
    """

    start: int
    taps: int
    step: int
    spacing: int
    offset: int

    def reach(self, count: int) -> int:
        """Return the extent of the inputs that ``count`` consecutive outputs of the phase read."""
        return (self.taps - 1) * self.spacing + count


Phases = Sequence[Sequence[_Phase | None]]
"""The taps of each phase of each spatial dimension; None for a phase without taps."""


def _combinations(phases: Phases) -> Iterator[tuple[tuple[int, ...], list[_Phase | None]]]:
    """Yield all combinations of phases, with one phase for each spatial dimension.

    A phase has the outputs with equal index modulo the stride. A combination is a pair of sequences
    with an element per dimension: the index of the phase, and the taps that the phase reads (None
    for no taps).
    """
    for number in product(*(range(len(line)) for line in phases)):
        yield number, [line[n] for line, n in zip(phases, number, strict=True)]


def phase_of(number: int, kernel: int, stride: int, dilation: int, low: int) -> _Phase | None:
    """Return the taps of the kernel that the outputs of a phase read; None if they read no tap.

    The kernel, the outputs and the phase are those of a ConvTranspose along one dimension. Phase
    ``number`` has the outputs ``number``, ``number + stride``, ``number + 2 * stride``, ... Output
    ``o`` sums, over the taps ``k``, the products of tap ``k`` and input
    ``(o + low - k * dilation) / stride``. Taps for which this quotient is not an integer are left
    out; these are the same taps for all outputs of a phase.

    Args:
        number: index of the phase.
        kernel: count of taps of the kernel.
        stride: stride of the ConvTranspose.
        dilation: dilation of the kernel.
        low: count of outputs that the ConvTranspose cuts off at the low end (its padding).
    """
    used = [k for k in range(kernel) if (number + low - k * dilation) % stride == 0]
    if not used:
        return None
    common = gcd(stride, dilation)
    return _Phase(
        start=kernel - 1 - used[-1],
        taps=len(used),
        step=stride // common,
        spacing=dilation // common,
        offset=(number + low - used[-1] * dilation) // stride,
    )


class _Transposed:
    def __init__(self, node: onnx.NodeProto, model: Model, table: ShapeTable) -> None:
        self._node = node
        self._write = NodeWriter(model, node.name)
        self._attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        self._dtype = dtype_of(table.elem_type(node.input[0]))
        self._x = table.shape(node.input[0])
        self._w = table.shape(node.input[1])
        self._out = table.shape(node.output[0])
        self._rank = len(self._out) - 2
        self._groups: int = self._attributes.get("group", 1)
        self._bias = node.input[2] if len(node.input) > 2 else ""
        self._strides = self._each("strides", 1)
        self._dilations = self._each("dilations", 1)
        self._low = self._padding()
        self._counts = [
            -(-size // stride) for size, stride in zip(self._out[2:], self._strides, strict=True)
        ]

    @property
    def num_parts(self) -> int:
        """Estimate of the number of new nodes.

        Each phase (the outputs with equal index modulo the stride) needs one node. If all taps are
        multiplied at once (``_suits_products``), each tap needs two more.
        """
        return prod(self._strides) + (2 * prod(self._w[2:]) if self._suits_products else 0)

    def decompose(self) -> list[onnx.NodeProto]:
        if not self._w[0]:
            self._finish(self._without_taps(self._out[2:]))  # no taps: only the bias is left
            return self._write.nodes
        phases = [
            [
                phase_of(number, self._w[2 + i], stride, self._dilations[i], self._low[i])
                for number in range(stride)
            ]
            for i, stride in enumerate(self._strides)
        ]
        low = [max([0, *(-p.offset for p in line if p)]) for line in phases]
        ends = [
            max((p.offset + p.reach(count) for p in line if p), default=0)
            for line, count in zip(phases, self._counts, strict=True)
        ]
        high = [max(0, end - size) for end, size in zip(ends, self._x[2:], strict=True)]
        add_phases = self._sums if self._suits_products else self._convolutions
        self._finish(self._interleave(add_phases(phases, low, high)))
        return self._write.nodes

    @property
    def _suits_products(self) -> bool:
        """Whether all taps are multiplied at once, in place of a convolution for each phase.

        A phase has the outputs with equal index modulo the stride. The method stores the products
        and adds them later, which is only worthwhile if many input channels are summed. Elements of
        16 bits are excluded, because each product would be rounded before the addition. The
        thresholds are from measurements on a processor with AVX2.
        """
        taps, (channels, features) = prod(self._w[2:]), self._w[:2]
        inputs, outputs = prod(self._x[2:]), prod(self._out[2:])
        size = self._out[0] * features * taps * inputs * self._dtype.itemsize
        if self._groups > 1 or not outputs or not 1 < taps <= MOST_TAPS:
            return False
        if self._dtype.itemsize < 4 or not 0 < size <= MOST_PRODUCT_BYTES:
            return False
        is_short = self._x[-1] < 8  # rows that do not fill a register
        few = features == 1 or (features <= 8 and channels >= 128) or (features <= 15 and is_short)
        # Of small inputs, a convolution multiplies much padding.
        is_padded = set(self._strides) == {1} and outputs >= 1.25 * inputs
        return (few and channels >= 32) or (
            is_padded and features <= 32 and channels >= 64 and taps <= 9
        )

    def _convolutions(
        self, phases: Phases, low: Sequence[int], high: Sequence[int]
    ) -> dict[tuple[int, ...], str]:
        """Emit a convolution for each phase; return the name of each phase's outputs.

        A phase has the outputs with equal index modulo the stride, along each spatial dimension.
        The key of a phase is a tuple with its index along each of these dimensions.

        Args:
            phases: the taps that each phase reads, for each spatial dimension.
            low: widths of the padding before the inputs that the phases read.
            high: widths of the padding after the inputs that the phases read.
        """
        padded = self._pad(self._node.input[0], low, high)
        kernel = self._flipped()
        return {
            number: self._convolve(padded, kernel, low, found)
            for number, found in _combinations(phases)
        }

    def _sums(
        self, phases: Phases, low: Sequence[int], high: Sequence[int]
    ) -> dict[tuple[int, ...], str]:
        """Emit the products of the inputs with every tap, and the sum of each phase's products.

        A phase has the outputs with equal index modulo the stride. Returns the names of the sums,
        by the phase's index along each dimension. The arguments are those of ``_convolutions``.
        """
        write, rank = self._write, self._rank
        (channels, features, *kernel), space = self._w, self._x[2:]
        taps_first = [*range(2, 2 + rank), 1, 0]
        turned = write.node("Transpose", [self._node.input[1]], perm=taps_first)
        shape = write.integers(prod(kernel) * features, channels, *[1] * rank)
        weights = write.node("Reshape", [turned, shape])
        products = write.node("Conv", [self._node.input[0], weights])
        # [N, M * taps, *space] to [N, *taps, M, *space]
        split = write.integers(self._out[0], *kernel, features, *space)
        outer = [0] * (2 + rank)
        padding = write.integers(*outer, *low, *outer, *high)
        padded = write.node("Pad", [write.node("Reshape", [products, split]), padding])
        return {number: self._sum(padded, low, found) for number, found in _combinations(phases)}

    def _sum(self, products: str, low: Sequence[int], phases: Sequence[_Phase | None]) -> str:
        """Emit the outputs of one phase, [N, M, *counts], including the bias; return their name.

        A phase has the outputs with equal index modulo the stride. ``counts`` are the phase's
        counts of outputs along the spatial dimensions.

        Args:
            products: name of the padded products of the inputs and all taps, [N, *taps, M, *space].
            low: widths of the padding before the products of each spatial dimension.
            phases: the taps that the phase reads along each spatial dimension; None for no taps.
        """
        used = [phase for phase in phases if phase is not None]
        if len(used) < len(phases):
            return self._without_taps(self._counts)
        write, rank, kernel = self._write, self._rank, self._w[2:]
        axes = write.integers(*range(1, 1 + rank), *range(2 + rank, 2 + 2 * rank))
        shape = write.integers(*self._out[:2], *self._counts)
        terms: list[str] = []
        for tap in product(*(range(phase.taps) for phase in used)):
            places = [
                size - 1 - phase.start - phase.step * at
                for at, phase, size in zip(tap, used, kernel, strict=True)
            ]
            begins = [
                phase.offset + phase.spacing * at + more
                for at, phase, more in zip(tap, used, low, strict=True)
            ]
            ends = [
                *(place + 1 for place in places),
                *(begin + count for begin, count in zip(begins, self._counts, strict=True)),
            ]
            bounds = [write.integers(*places, *begins), write.integers(*ends)]
            read = write.node("Slice", [products, *bounds, axes])
            terms.append(write.node("Reshape", [read, shape]))
        if self._bias:
            terms.append(self._column(self._bias))
        return terms[0] if len(terms) == 1 else write.node("Sum", terms)

    def _each(self, name: str, default: int) -> list[int]:
        return list(self._attributes.get(name) or [default] * self._rank)

    def _padding(self) -> list[int]:
        """Return, for each spatial dimension, the count of outputs to cut off at its low end.

        The count is the node's padding, or follows from the size of the node's result. If the
        result is larger than the computed outputs, the count is 0, and the outputs are extended at
        the high end by the bias, or by zeros, as in ONNX Runtime.
        """
        mode = self._attributes.get("auto_pad", b"NOTSET").decode()
        if "output_shape" not in self._attributes and mode in ("NOTSET", "VALID"):
            pads = self._attributes.get("pads") if mode == "NOTSET" else None
            return list((pads or [0] * self._rank)[: self._rank])
        total = [
            max(stride * (size - 1) + more + (taps - 1) * dilation + 1 - out, 0)
            for stride, size, more, taps, dilation, out in zip(
                self._strides, self._x[2:], self._each("output_padding", 0), self._w[2:],
                self._dilations, self._out[2:], strict=True,
            )
        ]  # fmt: skip
        return [t // 2 if mode == "SAME_UPPER" else t - t // 2 for t in total]

    def _pad(self, value: str, low: Sequence[int], high: Sequence[int]) -> str:
        if not any(low) and not any(high):
            return value
        return self._write.node("Pad", [value, self._write.integers(0, 0, *low, 0, 0, *high)])

    def _flipped(self) -> str:
        """Emit the kernel with reversed taps, in the layout of a convolution; return its name.

        The node's kernel is ``[C, M / G, *kernel]`` for C input channels, M output channels and G
        groups; the emitted kernel is ``[M, C / G, *kernel]``.
        """
        write, groups = self._write, self._groups
        channels, features, *kernel = self._w
        split = write.integers(groups, channels // groups, features, *kernel)
        order = [0, 2, 1, *range(3, 3 + self._rank)]
        turned = write.node(
            "Transpose", [write.node("Reshape", [self._node.input[1], split])], perm=order
        )
        shape = write.integers(groups * features, channels // groups, *kernel)
        joined = write.node("Reshape", [turned, shape])
        # With a negative step, such an end lies before the first element.
        return self._slice(joined, [-1] * self._rank, [-(1 << 31)] * self._rank, [-1] * self._rank)

    def _slice(
        self, value: str, starts: Sequence[int], ends: Sequence[int], steps: Sequence[int]
    ) -> str:
        """Emit a Slice of ``value`` along the spatial dimensions; return the result's name.

        ``starts``, ``ends`` and ``steps`` have an element for each spatial dimension.
        """
        integers = self._write.integers
        axes = integers(*range(2, 2 + self._rank))
        return self._write.node(
            "Slice", [value, integers(*starts), integers(*ends), axes, integers(*steps)]
        )

    def _convolve(
        self, padded: str, kernel: str, low: Sequence[int], phases: Sequence[_Phase | None]
    ) -> str:
        """Emit the outputs of one phase, including the bias; return their name.

        A phase has the outputs with equal index modulo the stride. The emitted value is ``[N, M,
        *counts]``: batch, output channels, and the phase's count of outputs along each spatial
        dimension.

        Args:
            padded: name of the padded input.
            kernel: name of the flipped kernel.
            low: widths of the padding before the input.
            phases: the taps that the phase reads along each spatial dimension; None for no taps.
        """
        used = [phase for phase in phases if phase is not None]
        if len(used) < len(phases):
            return self._without_taps(self._counts)
        starts = [phase.start for phase in used]
        steps = [phase.step for phase in used]
        ends = [s + (p.taps - 1) * p.step + 1 for s, p in zip(starts, used, strict=True)]
        begin = [phase.offset + more for phase, more in zip(used, low, strict=True)]
        end = [b + p.reach(c) for b, p, c in zip(begin, used, self._counts, strict=True)]
        ones = [1] * self._rank
        inputs = [self._slice(padded, begin, end, ones), self._slice(kernel, starts, ends, steps)]
        return self._write.node(
            "Conv",
            [*inputs, *self._node.input[2:3]],
            group=self._groups,
            dilations=[phase.spacing for phase in used],
        )

    def _without_taps(self, space: Sequence[int]) -> str:
        """Emit the outputs of a phase that reads no taps of the kernel; return their name.

        A phase has the outputs with equal index modulo the stride. The outputs equal the bias, or 0
        without a bias. ``space`` has the spatial extents of the outputs.
        """
        write = self._write
        bias = self._bias or write.constant(np.zeros(self._out[1], self._dtype))
        shape = write.integers(self._out[0], self._out[1], *space)
        return write.node("Expand", [self._column(bias), shape])

    def _column(self, bias: str) -> str:
        """Emit a reshape of the vector named ``bias`` to [1, M, 1, ...]; return its name.

        M is the count of output channels. The rank of the reshaped bias, ``2 + self._rank``, is
        that of the node's result.
        """
        shape = self._write.integers(1, self._out[1], *[1] * self._rank)
        return self._write.node("Reshape", [bias, shape])

    def _interleave(self, results: dict[tuple[int, ...], str]) -> str:
        """Emit the interleaved results of all phases; return their name.

        A phase has the outputs with equal index modulo the stride. ``results`` has the name of each
        phase's outputs. The key of a phase is a tuple with its index along each spatial dimension.
        """
        write = self._write
        if len(results) == 1:
            return next(iter(results.values()))
        pairs = [size for count in self._counts for size in (count, 1)]
        split = write.integers(*self._out[:2], *pairs)
        parts = {number: write.node("Reshape", [v, split]) for number, v in results.items()}
        for dimension in reversed(range(self._rank)):
            axis = 3 + 2 * dimension
            parts = {
                key: self._concat([parts[*key, n] for n in range(self._strides[dimension])], axis)
                for key in {number[:dimension] for number in parts}
            }
        whole = [s * count for s, count in zip(self._strides, self._counts, strict=True)]
        return write.node("Reshape", [parts[()], write.integers(*self._out[:2], *whole)])

    def _concat(self, values: Sequence[str], axis: int) -> str:
        return values[0] if len(values) == 1 else self._write.node("Concat", values, axis=axis)

    def _finish(self, result: str) -> None:
        """Emit the node's result: a Slice that cuts ``result`` to the node's output shape."""
        integers = self._write.integers
        bounds = [integers(*[0] * self._rank), integers(*self._out[2:])]
        axes = integers(*range(2, 2 + self._rank))
        self._write.named("Slice", [result, *bounds, axes], [self._node.output[0]])
