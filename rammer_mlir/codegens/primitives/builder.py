"""Translates the operations of a region to primitives of a library.

A *node* is one primitive with its operands and parameters. It may include element-wise functions of
its result: a bias, or post operations. *Opening* a region is a call before all runs, in which the
library prepares primitives and packs constant weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from operator import mul
from types import MappingProxyType
from typing import cast

from rammer_mlir.codegens.inexpressible import NotExpressibleError
from rammer_mlir.codegens.primitives.chains import Step, indexing_of, steps_after
from rammer_mlir.codegens.primitives.convolutions import (
    CONVOLUTIONS,
    check_windows,
    image_view,
    standard_image_axes,
    weight_view,
)
from rammer_mlir.codegens.primitives.functions import (
    BINARY_KINDS,
    UNARY_KINDS,
    binary_function,
    linear,
    unary_function,
)
from rammer_mlir.codegens.primitives.node import (
    Function,
    Kind,
    Layout,
    Node,
    Operand,
    Role,
    Table,
    Windows,
)
from rammer_mlir.codegens.primitives.region_values import RegionValues, is_renamed
from rammer_mlir.codegens.primitives.views import Dims, View, dense
from rammer_mlir.passes.regions.reading import Operand as Tensor
from rammer_mlir.passes.regions.reading import Reading
from rammer_mlir.passes.regions.region import Region, RegionOperation
from rammer_mlir.passes.regions.weights import uniform_of

PRODUCTS = ("matmul", "batch_matmul")

_REDUCTIONS = tuple(
    f"reduce_{name}" for name in ("max", "min", "sum", "prod", "mean", "l1", "sum_square")
)

_AVERAGES = {False: "average_pool", True: "inner_average_pool"}
"""Names of average pooling; the key tells whether padding is left out of the divisor."""

MOST_POSTS, MOST_MAIN, MOST_DIMS = 5, 27, 6
"""Limits: post operations of a primitive, its other operands, and dimensions of a value."""


def table_of(region: Region, in_blocks: Mapping[int, Dims] = MappingProxyType({})) -> Table:
    """Return the table of a region's values and primitives.

    A reshape gets no primitive: its result is a view of its operand.

    Args:
        region: the region, whose inputs and outputs may have blocked layouts.
        in_blocks: inputs and outputs that are treated as stored in blocks of 16 channels although
            ``region`` stores them row-major: their row-major shapes by buffer index. Buffers are
            the inputs, then the outputs.

    Raises:
        NotExpressibleError: if an operation has no primitive.
    """
    values = RegionValues.of(region, in_blocks)
    operations = [each for each in region.operations if not is_renamed(each)]
    is_alone = len(operations) == 1
    nodes = tuple(_Builder(values, each, is_alone).node() for each in operations)
    num_inputs = len(region.inputs)
    if not values.is_complete:
        raise NotExpressibleError("a result that is given as it is")
    return Table(tuple(values.values), nodes, num_inputs, num_inputs + len(region.outputs))


def is_expressible(readings: Sequence[Reading]) -> bool:
    """Whether a library can compute a chain of operations as a single primitive.

    Each operation of the chain reads the result of the previous operation.
    """
    # Uniform constants are no inputs of a region: the code contains their number.
    operands = [o for r in readings for o in (*r.inputs, r.output)]
    tensors = [o.value for o in operands if uniform_of(o) is None]
    numbers = {value: n for n, value in enumerate(dict.fromkeys(tensors))}
    operation = RegionOperation("", tuple(readings), numbers, (), (numbers[tensors[-1]],))
    try:
        _check_types(readings[-1])
        return is_renamed(operation) or bool(_Builder(RegionValues(), operation).node())
    except NotExpressibleError:
        return False


@dataclass(frozen=True)
class _Builder:
    """Builds the primitive of an operation of a region.

    Attributes:
        values: collects the views of the whole region; the builder adds the view (sizes and
            strides) by which the primitive accesses each tensor.
        operation: the operation.
        is_alone: whether the region has no other primitive.
    """

    values: RegionValues
    operation: RegionOperation
    is_alone: bool = False

    def node(self) -> Node:
        """Return the primitive (node) that computes the operation.

        Raises:
            NotExpressibleError: if the library has no such primitive.
        """
        # Fills only initialize the results of other operations.
        readings = [each for each in self.operation.readings if each.kind != "fill"]
        for reading in readings:
            _check_types(reading)
        if len(self.operation.outputs) != 1 or not readings or readings[0].kind not in _MAIN:
            raise NotExpressibleError(self.operation.name)
        if readings[0].kind == "broadcast":
            return self._resized(readings)
        node = _MAIN[readings[0].kind](self, readings[0])
        return self._with_steps(node, readings)

    def _number(self, tensor: Tensor) -> int:
        if tensor.value not in self.operation.values:
            raise NotExpressibleError("a constant that is written in the code")
        return self.operation.values[tensor.value]

    def _read(
        self,
        role: Role,
        tensor: Tensor,
        view: View | None = None,
        layout: Layout = Layout.NOW,
    ) -> Operand:
        shown = view or dense(tensor.shape)
        _check_rank(shown)
        return Operand(role, self.values.read(self._number(tensor), shown), layout)

    def _result(self, view: View, layout: Layout = Layout.ANY) -> Operand:
        """Return the operand to which the primitive writes the operation's result.

        ``view`` has the sizes and strides of the result; ``layout`` is the layout in which it is
        written.
        """
        _check_rank(view)
        return Operand(Role.RESULT, self.values.write(self.operation.outputs[0], view), layout)

    def _with_steps(self, node: Node, readings: Sequence[Reading]) -> Node:
        """Return ``node`` extended by the element-wise functions of its result, in order.

        Each function becomes a bias or a post operation of the node. ``readings`` describes
        the node's operation, then the functions.

        Raises NotExpressibleError for more than ``MOST_POSTS`` post operations, and for any after a
        unary function.
        """
        main = readings[0]
        if node.kind == Kind.ELTWISE and len(readings) > 1:
            raise NotExpressibleError("functions after a unary one, computed by reference code")
        for step in steps_after(readings):
            post = unary_function(step.reading)
            if post is not None:
                node = replace(node, posts=(*node.posts, post))
            else:
                node = self._with_operand(node, main, step)
        if len(node.posts) > MOST_POSTS:
            raise NotExpressibleError("more functions behind an operation")
        return node

    def _with_operand(self, node: Node, main: Reading, step: Step) -> Node:
        """Fuse a function of the node's result and a second tensor into the node; return it.

        ``step`` is the function, ``main`` describes the node's operation. The function becomes the
        bias of a contraction if it adds a vector along the channels and is the first function.
        Any other function becomes a binary post operation.
        """
        post = binary_function(step.reading, is_first=step.is_first)
        assert step.other is not None
        whole = self.values.values[node.operands[0].value].view.dims
        rank, places = main.output.rank, step.places
        if node.kind == Kind.CONVOLUTION:
            rank, places = max(rank, len(whole)), standard_image_axes(main, places, main.output)
        view = dense(step.other.shape).spread(places, rank)
        if "G" in str(main.attributes.get("output_layout", "")):
            view = view.joined(1)
        channels = len(whole) - 1 if node.kind == Kind.MATMUL else 1
        is_vector = _is_vector(view, whole, channels)
        if is_vector and step.reading.kind == "add" and _takes_bias(node):
            return self._with_bias(node, step.other, view)
        is_full = view.dims == whole
        if not is_full and not is_vector and prod(view.dims) > 1:
            raise NotExpressibleError("a step that repeats what it reads")
        read = self._read(Role.POST, step.other, view, Layout.ANY if is_full else Layout.PLAIN)
        read = replace(read, is_whole=not is_full)
        return replace(node, posts=(*node.posts, post), read=(*node.read, read))

    def _with_bias(self, node: Node, tensor: Tensor, view: View) -> Node:
        vector = View(view.dims[1:2], view.strides[1:2]) if node.kind == Kind.CONVOLUTION else view
        bias = replace(self._read(Role.BIAS, tensor, vector, Layout.PLAIN), is_whole=True)
        return replace(node, operands=(*node.operands, bias))

    def convolution(self, reading: Reading) -> Node:
        """Return the node of a convolution; its weights are packed when the region is opened."""
        image, weights = reading.inputs
        kernel = weight_view(reading)
        src = self._read(Role.SOURCE, image, image_view(reading))
        dst = self._result(image_view(reading, is_output=True))
        windows = _windows(reading)
        # A pointwise convolution is faster in its given layout than with conversions to a blocked
        # layout before and after.
        is_plain = self.is_alone and windows.are_points and reading.attributes["groups"] == 1
        layout = Layout.PLAIN if is_plain else Layout.ANY
        packed = replace(self._read(Role.WEIGHTS, weights, kernel, Layout.PACKED), is_whole=True)
        operands = (replace(dst, layout=layout), replace(src, layout=layout), packed)
        return Node(Kind.CONVOLUTION, operands, windows=windows)

    def product(self, reading: Reading) -> Node:
        """Return the node of a matrix product.

        The second operand is a constant, packed when the region is opened, except in the composite
        ``onednn.product``: there it is any tensor, and is not packed.
        """
        left, right = reading.inputs
        src = self._read(Role.SOURCE, left, _matrix(reading, 0), Layout.PLAIN)
        is_packed = not self.operation.name.endswith(".product")
        weights = self._read(
            Role.WEIGHTS, right, _matrix(reading, 1), Layout.PACKED if is_packed else Layout.PLAIN
        )
        dst = self._result(dense(reading.output.shape), Layout.PLAIN)
        weights = replace(weights, is_whole=is_packed or right.rank == 2)
        return Node(Kind.MATMUL, (dst, src, weights))

    def element_wise(self, reading: Reading) -> Node:
        """Return the node of a unary or binary function; a second operand may be broadcast."""
        function, whole = unary_function(reading), reading.output.shape
        if function is None:
            return self._binary(reading)
        pairs = zip(reading.inputs, indexing_of(reading), strict=True)
        sources = [(each, places) for each, places in pairs if uniform_of(each) is None]
        # A constant of the result's shape says nothing about how the other operand is read.
        if [(each.shape, places) for each, places in sources] != [
            (whole, tuple(range(len(whole))))
        ]:
            raise NotExpressibleError("an operand that is repeated")
        source = sources[0][0]
        operands = (self._result(dense(whole)), self._read(Role.SOURCE, source))
        return Node(Kind.ELTWISE, operands, function)

    def _binary(self, reading: Reading) -> Node:
        whole, rank = reading.output.shape, reading.output.rank
        pairs = list(zip(reading.inputs, indexing_of(reading), strict=True))
        if len(pairs) != 2:
            raise NotExpressibleError("a function of other operands")
        is_first = pairs[0][1] == tuple(range(rank))
        function = binary_function(reading, is_first=is_first)
        (first, places), (other, other_places) = pairs if is_first else pairs[::-1]
        view = dense(other.shape).spread(other_places, rank)
        if places != tuple(range(rank)) or first.shape != whole:
            raise NotExpressibleError("operands that are both repeated")
        # The library's fast code expects a vector along blocked channels in blocks too.
        layout = Layout.ANY if _is_vector(view, whole, 1) or view.dims == whole else Layout.PLAIN
        read = self._read(Role.WEIGHTS, other, view, layout)
        read = replace(read, is_whole=view.dims[0] != whole[0] or whole[0] == 1)
        operands = (self._result(dense(whole)), self._read(Role.SOURCE, first), read)
        return Node(Kind.BINARY, operands, function)

    def softmax(self, reading: Reading) -> Node:
        """Return the node of a softmax along a single dimension.

        Raises NotExpressibleError for several dimensions.
        """
        axes = _dims(reading, "axes")
        if len(axes) != 1:
            raise NotExpressibleError("a softmax along several dimensions")
        (source,) = reading.inputs
        operands = (self._result(dense(source.shape)), self._read(Role.SOURCE, source))
        return Node(Kind.SOFTMAX, operands, Function("softmax"), axes[0])

    def pool(self, reading: Reading) -> Node:
        """Return the node of a pooling.

        A sum over windows becomes an average pooling whose result is multiplied by the window's
        size.

        Raises NotExpressibleError for dilated windows.
        """
        windows = _windows(reading)
        if set(windows.dilations) != {0}:
            raise NotExpressibleError("wide windows, of which the library has no fast code")
        is_inner = reading.kind == "average_pool" and not reading.attributes["count_include_pad"]
        factor = (linear(prod(windows.kernel)),) if reading.kind == "sum_pool" else ()
        (image,) = reading.inputs
        operands = (self._result(dense(reading.output.shape)), self._read(Role.SOURCE, image))
        name = "max_pool" if reading.kind == "max_pool" else _AVERAGES[is_inner]
        return Node(Kind.POOLING, operands, Function(name), windows=windows, posts=factor)

    def reduction(self, reading: Reading) -> Node:
        """Return the node of a reduction.

        A maximum or mean over all spatial axes becomes a pooling, which permits any layout.
        """
        (source,) = reading.inputs
        axes = _dims(reading, "axes")
        kept = dense([1 if d in axes else n for d, n in enumerate(source.shape)])
        operands = (self._result(kept), self._read(Role.SOURCE, source))
        pool = {"reduce_max": "max_pool", "reduce_mean": _AVERAGES[False]}.get(reading.kind)
        if pool and axes == tuple(range(2, source.rank)) and 3 <= source.rank <= 5:
            ones, none = (1,) * len(axes), (0,) * len(axes)
            windows = Windows(ones, none, none, none, source.shape[2:])
            return Node(Kind.POOLING, operands, Function(pool), windows=windows)
        rows = tuple(replace(each, layout=Layout.PLAIN) for each in operands)
        return Node(Kind.REDUCTION, rows, Function(reading.kind))

    def concatenation(self, reading: Reading) -> Node:
        """Return the node of a concatenation.

        Raises NotExpressibleError for more than ``MOST_MAIN - 1`` tensors.
        """
        axis = reading.attributes["axis"]
        assert isinstance(axis, int)
        if len(reading.inputs) > MOST_MAIN - 1:
            raise NotExpressibleError("a concatenation of many tensors")
        parts = [self._read(Role.PART, each) for each in reading.inputs]
        return Node(Kind.CONCAT, (self._result(dense(reading.output.shape)), *parts), axis=axis)

    def transpose(self, reading: Reading) -> Node:
        """Return the node of a copy that permutes the dimensions of its input."""
        (source,) = reading.inputs
        view = dense(source.shape).permuted(_dims(reading, "permutation"))
        src = self._read(Role.SOURCE, source, view, Layout.PLAIN)
        return Node(Kind.REORDER, (self._result(dense(view.dims), Layout.PLAIN), src))

    def _resized(self, readings: Sequence[Reading]) -> Node:
        """Return the node of a nearest-neighbor upsampling.

        ``readings`` has a broadcast and a reshape for each resized axis. Raises NotExpressibleError
        for other broadcasts, and for ranks other than 3 to 5.
        """
        source, output = readings[0].inputs[0], readings[-1].output
        if not are_repetitions(readings) or not 3 <= source.rank <= 5:
            raise NotExpressibleError("a broadcast")
        src = self._read(Role.SOURCE, source)
        return Node(Kind.RESAMPLING, (self._result(dense(output.shape)), src), Function("nearest"))


def are_repetitions(readings: Sequence[Reading]) -> bool:
    """Whether operations repeat each element along spatial axes of an image (upsampling).

    These operations must be pairs of a broadcast and a reshape.
    """
    kinds = [reading.kind for reading in readings]
    if kinds != ["broadcast", "reshape"] * (len(readings) // 2):
        return False
    return all(map(_is_repetition, readings[::2], readings[1::2]))


def _is_repetition(broadcast: Reading, reshape: Reading) -> bool:
    """Whether a broadcast and a reshape of its result repeat elements along spatial axes.

    The broadcast inserts dimensions after spatial axes; the reshape collapses each inserted
    dimension into the preceding axis. For example ``NCHW -> NCHrWs -> NC(Hr)(Ws)``.
    """
    shape, whole = broadcast.inputs[0].shape, broadcast.output.shape
    (places,) = indexing_of(broadcast)
    if places[:3] != (0, 1, 2) or list(places) != sorted(places) or len(whole) == len(shape):
        return False
    if tuple(whole[place] for place in places) != shape:
        return False
    counts = (prod(whole[a + 1 : b]) for a, b in pairwise((*places, len(whole))))
    return reshape.output.shape == tuple(map(mul, shape, counts))


_MAIN: dict[str, Callable[[_Builder, Reading], Node]] = {
    **dict.fromkeys((*UNARY_KINDS, *BINARY_KINDS), _Builder.element_wise),
    **dict.fromkeys(CONVOLUTIONS, _Builder.convolution),
    **dict.fromkeys(PRODUCTS, _Builder.product),
    **dict.fromkeys(("max_pool", "average_pool", "sum_pool"), _Builder.pool),
    **dict.fromkeys(_REDUCTIONS, _Builder.reduction),
    # Marks broadcasts as main operations; ``node`` itself translates them.
    "broadcast": _Builder.transpose,
    "concat": _Builder.concatenation,
    "softmax": _Builder.softmax,
    "transpose": _Builder.transpose,
}


def _is_vector(view: View, whole: Sequence[int], channels: int) -> bool:
    """Whether a view is a vector along dimension ``channels`` of a tensor of shape ``whole``."""
    return view.dims == tuple(n if d == channels else 1 for d, n in enumerate(whole))


def _takes_bias(node: Node) -> bool:
    has_one = len(node.operands) > 3
    return node.kind in (Kind.CONVOLUTION, Kind.MATMUL) and not has_one and not node.posts


def _check_types(reading: Reading) -> None:
    if any(each.element_type != "f32" for each in (*reading.inputs, reading.output)):
        raise NotExpressibleError("other elements than f32")


def _check_rank(view: View) -> None:
    if not 1 <= len(view.dims) <= MOST_DIMS:
        raise NotExpressibleError("many dimensions, or none")


def _matrix(product: Reading, place: int) -> View:
    """Return operand ``place`` (0 or 1) of a matrix product as a view [batch, rows, columns].

    For a transposed operand, the view exchanges the last two dimensions. A plain matrix has no
    batch.
    """
    view, rank = dense(product.inputs[place].shape), product.inputs[place].rank
    order = [*range(rank - 2), rank - 1, rank - 2]
    return view.permuted(order) if product.attributes[f"transpose_{'ab'[place]}"] else view


def _windows(reading: Reading) -> Windows:
    """Return the windows of a convolution or pooling, with a dilation of 0 for adjacent elements.

    Raises NotExpressibleError if windows extend beyond the padding.
    """
    names = ("kernel", "strides", "dilations", "pads")
    kernel, strides, dilations, pads = (_dims(reading, name) for name in names)
    rank = len(kernel)
    check_windows(reading)
    # Libraries count dilations from 0, the readings from 1.
    return Windows(strides, tuple(d - 1 for d in dilations), pads[:rank], pads[rank:], kernel)


def _dims(reading: Reading, name: str) -> Dims:
    return cast("Dims", reading.attributes[name])
