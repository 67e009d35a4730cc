"""Defines rules that tell whether a node's results stay correct if an open dimension is padded.

A row is a slice at one index of the open dimension; padding adds rows at the end. The node must
compute rows independently: a padding row must not influence other rows, and an index in a padding
row must not read or write out of bounds. A rule returns the shapes of a node's results, or refuses
the node; operators without a rule are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import onnx

from rammer_mlir.evaluators import elementwise
from rammer_mlir.frontends.onnx.hosting.padded_node import Dims, PaddedNode
from rammer_mlir.frontends.onnx.hosting.padded_values import (
    DependentRowsError,
    Dim,
    Padded,
    product,
)

Rule = Callable[[PaddedNode], Sequence[Dims]]

_FAR = 1 << 31
"""A number greater than any extent, which slices use as the end of an axis."""


def _broadcast(node: PaddedNode) -> Sequence[Dims]:
    return [node.demands.broadcast([value.shape for value in node.given()])]


def _divided(node: PaddedNode) -> Sequence[Dims]:
    """Return the shape of the result of a division.

    Raises:
        DependentRowsError: if the divisor has integer elements and an open dimension. The padding
            of the divisor may be 0, and an integer division by 0 is undefined.
    """
    divisor = node.operand(1)
    kind = onnx.helper.tensor_dtype_to_np_dtype(divisor.elem_type)
    if divisor.is_padded and kind.kind in "iu":
        raise DependentRowsError
    return _broadcast(node)


def _same(node: PaddedNode) -> Sequence[Dims]:
    node.require_static(*range(1, len(node.operands)))
    return [node.operand(0).shape for _ in node.inferred]


def _along(default: int, only_last: bool = False) -> Rule:
    """Return the rule of an operator that keeps shapes and mixes elements along its axis.

    The axis is the node's attribute ``axis``.

    Args:
        default: default value of the attribute ``axis``.
        only_last: whether the operator mixes elements along all dimensions from ``axis`` to the
            last, as LayerNormalization does, instead of along ``axis`` alone.
    """

    def rule(node: PaddedNode) -> Sequence[Dims]:
        shape = node.operand(0).shape
        axis = node.attribute("axis", default) % len(shape)
        axes = range(axis, len(shape)) if only_last else [axis]
        node.require_static_axes(shape, axes)
        node.require_static(*range(1, len(node.operands)))
        return [_with_sizes(shape, inferred) for inferred in node.inferred]

    return rule


def _with_sizes(shape: Dims, sizes: Sequence[int]) -> Dims:
    """Return ``shape`` with each static dimension replaced by the element of ``sizes`` for it.

    Open dimensions stay. ``sizes`` has an element for each dimension.
    """
    pairs = zip(shape, sizes, strict=False)
    return tuple(dim if isinstance(dim, Padded) else size for dim, size in pairs)


def _running(node: PaddedNode) -> Sequence[Dims]:
    shape = node.operand(0).shape
    node.require_static_axes(shape, [axis % len(shape) for axis in node.operand(1).integers()])
    return [shape]


def _batch(node: PaddedNode) -> Sequence[Dims]:
    """Return the shapes of the results of an operator on a batch of images, such as Conv.

    Raises:
        DependentRowsError: if a dimension other than the batch is open, or images influence each
            other.
    """
    shape = node.operand(0).shape
    node.require_static_axes(shape, range(1, len(shape)))
    node.require_static(*range(1, len(node.operands)))
    # In training mode, the mean and variance mix the images of a batch.
    if node.attribute("training_mode", 0):
        raise DependentRowsError
    return [(shape[0], *sizes[1:]) for sizes in node.inferred]


def _reduced(node: PaddedNode) -> Sequence[Dims]:
    shape = node.operand(0).shape
    every = () if node.attribute("noop_with_empty_axes", 0) else tuple(range(len(shape)))
    axes = node.axes(len(shape), default=every) or list(every)
    return [_without(node, shape, axes)]


def _extreme(node: PaddedNode) -> Sequence[Dims]:
    shape = node.operand(0).shape
    return [_without(node, shape, [node.attribute("axis", 0) % len(shape)])]


def _without(node: PaddedNode, shape: Dims, axes: Sequence[int]) -> Dims:
    node.require_static_axes(shape, axes)
    if node.attribute("keepdims", 1):
        return tuple(1 if place in axes else dim for place, dim in enumerate(shape))
    return tuple(dim for place, dim in enumerate(shape) if place not in axes)


def _matrices(node: PaddedNode) -> Sequence[Dims]:
    one, other = node.operand(0).shape, node.operand(1).shape
    if len(one) < 2 or len(other) < 2 or isinstance(one[-1], Padded) or one[-1] != other[-2]:
        raise DependentRowsError
    return [(*node.demands.broadcast([one[:-2], other[:-2]]), one[-2], other[-1])]


def _gemm(node: PaddedNode) -> Sequence[Dims]:
    one, other = node.operand(0).shape, node.operand(1).shape
    rows, inner = one[::-1] if node.attribute("transA", 0) else one
    again, columns = other[::-1] if node.attribute("transB", 0) else other
    if isinstance(inner, Padded) or inner != again:
        raise DependentRowsError
    addend = node.find(2)
    shapes = [(rows, columns)] + ([addend.shape] if addend is not None else [])
    return [node.demands.broadcast(shapes)]


def _gather(node: PaddedNode) -> Sequence[Dims]:
    data, indices = node.operand(0), node.operand(1)
    axis = node.attribute("axis", 0) % len(data.shape)
    node.demands.read(data, axis, indices)
    return [data.shape[:axis] + indices.shape + data.shape[axis + 1 :]]


def _gather_elements(node: PaddedNode) -> Sequence[Dims]:
    data, indices = node.operand(0), node.operand(1)
    axis = node.attribute("axis", 0) % len(data.shape)
    node.demands.read(data, axis, indices)
    return [_require_equal_sizes(node, data.shape, indices.shape, axis)]


def _require_equal_sizes(node: PaddedNode, data: Dims, indices: Dims, axis: int) -> Dims:
    """Require that the data and indices of GatherElements or ScatterElements have equal open sizes.

    ``data`` and ``indices`` are the shapes of these two tensors. Their sizes are compared in each
    dimension except ``axis`` in which at least one of the two sizes is open. The requirement that
    they are equal is recorded in ``node.demands`` and checked at run time. Returns ``indices``.

    Raises:
        DependentRowsError: if only one of two compared sizes is open, or if both are open with
            different values of ``Padded.factor``.
    """
    pairs = list(zip(data, indices, strict=True))
    for place, (one, other) in enumerate(pairs):
        if place != axis and (isinstance(one, Padded) or isinstance(other, Padded)):
            node.demands.unite(one, other)
    return indices


def _scatter_elements(node: PaddedNode) -> Sequence[Dims]:
    data, indices, updates = (node.operand(number) for number in range(3))
    axis = node.attribute("axis", 0) % len(data.shape)
    if node.attribute("reduction", b"none") != b"none" or len(updates.shape) != len(indices.shape):
        raise DependentRowsError
    for one, other in zip(indices.shape, updates.shape, strict=True):
        node.demands.unite(one, other)
    _require_equal_sizes(node, data.shape, indices.shape, axis)
    if isinstance(indices.shape[axis], Padded):
        node.demands.write(data.shape[axis], indices)
    else:
        node.demands.read(data, axis, indices)
    return [data.shape]


def _regions(node: PaddedNode) -> Sequence[Dims]:
    features, boxes, numbers = (node.operand(number) for number in range(3))
    if features.is_padded or isinstance(boxes.shape[1], Padded):
        raise DependentRowsError
    rows = node.demands.unite(boxes.shape[0], numbers.shape[0])
    node.demands.read(features, 0, numbers)
    return [(rows, *node.inferred[0][1:])]


def _concat(node: PaddedNode) -> Sequence[Dims]:
    shapes = [value.shape for value in node.given()]
    axis = node.attribute("axis") % len(shapes[0])
    for shape in shapes:
        node.require_static_axes(shape, [axis])
    columns = list(zip(*shapes, strict=True))
    found: list[Dim] = []
    for place, dims in enumerate(columns):
        dim = dims[0]
        for other in dims[1:] if place != axis else ():
            dim = node.demands.unite(dim, other)
        found.append(
            product([sum(d for d in dims if isinstance(d, int))]) if place == axis else dim
        )
    return [tuple(found)]


def _unsqueeze(node: PaddedNode) -> Sequence[Dims]:
    shape = node.operand(0).shape
    given = node.attribute("axes") or node.operand(1).integers()
    rank = len(shape) + len(given)
    axes = {axis % rank for axis in given}
    rest = iter(shape)
    return [tuple(1 if place in axes else next(rest) for place in range(rank))]


def _squeeze(node: PaddedNode) -> Sequence[Dims]:
    shape = node.operand(0).shape
    axes = node.axes(len(shape))
    node.require_static_axes(shape, axes)
    return [tuple(dim for place, dim in enumerate(shape) if place not in axes)]


def _reshape(node: PaddedNode) -> Sequence[Dims]:
    shape, target = node.operand(0).shape, list(node.operand(1).elements())
    if not node.attribute("allowzero", 0):
        target = [shape[n] if dim == 0 else dim for n, dim in enumerate(target)]
    return [reshaped(node, shape, target)]


def reshaped(node: PaddedNode, shape: Dims, target: Sequence[Dim]) -> Dims:
    """Return the shape of the result of a reshape.

    A row has the elements at one index of an open dimension. The elements of each row must stay
    together, and the rows in order. For example, ``[N, 6] -> [N, 2, 3]`` is possible,
    ``[2, N] -> [N, 2]`` is not.

    Args:
        node: the reshape.
        shape: the shape of its operand.
        target: the requested shape, in which -1 stands for a size to compute.

    Raises:
        DependentRowsError: if the elements of a row would not stay together.
    """
    total = product(shape)
    known = product(dim for dim in target if dim != -1)
    found = tuple(_share(total, known) if dim == -1 else dim for dim in target)
    node.demands.unite(product(found), total)
    if _before(found) != _before(shape):
        raise DependentRowsError
    return found


def _share(total: Dim, known: Dim) -> Dim:
    """Return the size that -1 stands for in the requested shape of a reshape: ``total / known``.

    ``total`` is the number of elements of the data, and ``known`` the product of the other sizes of
    the requested shape. Such a number is open if it is a multiple of an open dimension's size. If
    both are open, the quotient is static; if only ``total`` is open, the quotient is open.

    Raises:
        DependentRowsError: if only ``known`` is open, if ``known`` is 0, or if the quotient is not
            an integer.
    """
    if isinstance(total, Padded) and isinstance(known, int) and known and not total.factor % known:
        return Padded(total.symbol, total.factor // known)
    whole = total.factor if isinstance(total, Padded) else total
    part = known.factor if isinstance(known, Padded) else known
    if isinstance(total, Padded) is not isinstance(known, Padded) or not part or whole % part:
        raise DependentRowsError
    return whole // part


def _before(shape: Dims) -> int:
    """Return the product of the sizes before the first open dimension, which must exist."""
    found = 1
    for dim in shape:
        if isinstance(dim, Padded):
            return found
        found *= dim
    raise DependentRowsError


def _flatten(node: PaddedNode) -> Sequence[Dims]:
    shape = node.operand(0).shape
    axis = node.attribute("axis", 1)
    axis = axis + len(shape) if axis < 0 else axis
    return [reshaped(node, shape, [product(shape[:axis]), product(shape[axis:])])]


def _expand(node: PaddedNode) -> Sequence[Dims]:
    return [node.demands.broadcast([node.operand(0).shape, node.operand(1).elements()])]


def _filled(node: PaddedNode) -> Sequence[Dims]:
    return [node.operand(0).elements()]


def _range(node: PaddedNode) -> Sequence[Dims]:
    ends = [node.operand(number).elements() for number in range(3)]
    if ends[0] != (0,) or ends[2] != (1,):
        raise DependentRowsError
    return [ends[1]]


def _slice(node: PaddedNode) -> Sequence[Dims]:
    shape = list(node.operand(0).shape)
    starts, ends = node.operand(1).elements(), node.operand(2).elements()
    steps = node.find(4)
    axes = node.axes(len(shape), 3, range(len(starts)))
    strides = steps.integers() if steps is not None else [1] * len(starts)
    for start, end, axis, stride in zip(starts, ends, axes, strides, strict=True):
        shape[axis] = _cut(node, shape[axis], (start, end, stride))
    return [tuple(shape)]


def _cut(node: PaddedNode, dim: Dim, bounds: tuple[Dim, Dim, int]) -> Dim:
    """Return the size of a dimension after a slice along it.

    ``dim`` is the size before the slice, and ``bounds`` are the slice's start, end and stride. An
    open dimension must be kept whole: its size must be the end, or the end must be unlimited.

    Raises:
        DependentRowsError: if an open dimension is not kept whole, or if a static dimension has a
            bound that is an open size.
    """
    start, end, stride = bounds
    if isinstance(dim, int):
        if isinstance(start, int) and isinstance(end, int):
            return len(range(*slice(start, end, stride).indices(dim)))
        raise DependentRowsError
    if (start, stride) != (0, 1):
        raise DependentRowsError
    if isinstance(end, Padded):
        node.demands.unite(dim, end)
    elif end < _FAR - 1:
        raise DependentRowsError
    return dim


def _split(node: PaddedNode) -> Sequence[Dims]:
    shape = node.operand(0).shape
    axis = node.attribute("axis", 0) % len(shape)
    node.require_static_axes(shape, [axis])
    return [_with_sizes(shape, sizes) for sizes in node.inferred]


def _transpose(node: PaddedNode) -> Sequence[Dims]:
    shape = node.operand(0).shape
    order = node.attribute("perm", range(len(shape))[::-1])
    return [tuple(shape[place] for place in order)]


def _tile(node: PaddedNode) -> Sequence[Dims]:
    shape, repeats = node.operand(0).shape, node.operand(1).integers()
    pairs = list(zip(shape, repeats, strict=True))
    if any(isinstance(dim, Padded) and times != 1 for dim, times in pairs):
        raise DependentRowsError
    return [tuple(d if isinstance(d, Padded) else d * times for d, times in pairs)]


def _pad(node: PaddedNode) -> Sequence[Dims]:
    shape, pads = node.operand(0).shape, node.operand(1).integers()
    node.require_static(1, 2, 3)
    given = node.find(3)
    axes = given.integers() if given is not None else range(len(shape))
    places = [axis % len(shape) for axis in axes]
    half = len(pads) // 2
    around = [any(pair) for pair in zip(pads[:half], pads[half:], strict=True)]
    node.require_static_axes(
        shape, [axis for axis, some in zip(places, around, strict=True) if some]
    )
    return [_with_sizes(shape, sizes) for sizes in node.inferred]


_ELEMENTWISE = {*elementwise.EVALUATORS} - {"Div", "Mod"} | {
    "Celu",
    "Elu",
    "Gelu",
    "HardSigmoid",
    "HardSwish",
    "LeakyRelu",
    "Mish",
    "PRelu",
    "Selu",
    "Shrink",
    "Softplus",
    "Softsign",
    "Swish",
    "ThresholdedRelu",
}

_REDUCTIONS = (
    *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean"),
    *("ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"),
)

_BATCHES = (
    *("AveragePool", "BatchNormalization", "Conv", "ConvTranspose", "DepthToSpace"),
    *("GlobalAveragePool", "GlobalMaxPool", "GroupNormalization", "InstanceNormalization"),
    *("LRN", "MaxPool", "SpaceToDepth"),
)

SHAPE_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(_ELEMENTWISE, _broadcast),
    **dict.fromkeys(_REDUCTIONS, _reduced),
    **dict.fromkeys(_BATCHES, _batch),
    **dict.fromkeys(("CumProd", "CumSum"), _running),
    **dict.fromkeys(("Div", "Mod"), _divided),
    **dict.fromkeys(("Dropout", "Identity"), _same),
    **dict.fromkeys(("Hardmax", "LogSoftmax", "Softmax", "TopK"), _along(-1)),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), _along(-1, only_last=True)),
    **dict.fromkeys(("ArgMax", "ArgMin"), _extreme),
    "Concat": _concat,
    "ConstantOfShape": _filled,
    "Expand": _expand,
    "Flatten": _flatten,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "Gemm": _gemm,
    "MatMul": _matrices,
    "Pad": _pad,
    "Range": _range,
    "Reshape": _reshape,
    "RoiAlign": _regions,
    "ScatterElements": _scatter_elements,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
"""Rules by operator: each returns the shapes of a node's results."""
