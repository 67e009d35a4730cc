"""Recognizes windows over an image's spatial dimensions, and reads their strides and paddings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.boxes import linear_form
from rammer_mlir.passes.ir.constant_pad import find_constant_pad
from rammer_mlir.passes.ir.reshapes import reassociation
from rammer_mlir.passes.ir.structured import Structured, plain_dim
from rammer_mlir.passes.regions.expressions import scalar_constant
from rammer_mlir.passes.regions.reading import Attribute

_SPATIAL = "DHW"
"""Letters of up to three spatial dimensions; fewer dimensions use the last letters."""


@dataclass(frozen=True)
class Axis:
    """A spatial dimension of an image, indexed by ``loop * stride + window * dilation``.

    Attributes:
        loop: index of the loop over the result.
        stride: distance of adjacent windows, in elements.
        window: index of the loop over the window; None for windows of one element.
        dilation: distance of adjacent elements of a window; 1 for windows of one element.
    """

    loop: int
    stride: int
    window: int | None
    dilation: int


def axis_of(expr: ir.AffineExpr, parallel: Sequence[bool]) -> Axis | None:
    """Return the axis with the index expression ``loop * stride + window * dilation``.

    Return None for any other expression. ``parallel`` is True for each parallel loop.
    """
    form = linear_form(expr)
    if form is None or form.constant or not 1 <= len(form.coefficients) <= 2:
        return None
    loops = [loop for loop in form.coefficients if parallel[loop]]
    windows = [loop for loop in form.coefficients if not parallel[loop]]
    if len(loops) != 1 or min(form.coefficients.values()) < 1:
        return None
    stride = form.coefficients[loops[0]]
    if not windows:
        return Axis(loops[0], stride, None, 1)
    return Axis(loops[0], stride, windows[0], form.coefficients[windows[0]])


def spatial_letters(axes: Sequence[Axis]) -> dict[int, str]:
    """Return the layout letter, D, H or W, of each loop along a spatial axis.

    The keys are the indices of the loops over the result and of the loops over a window. The result
    is empty for more than three axes.
    """
    letters: dict[int, str] = {}
    if len(axes) > len(_SPATIAL):
        return {}
    for axis, letter in zip(axes, _SPATIAL[len(_SPATIAL) - len(axes) :], strict=True):
        letters[axis.loop] = letter
        if axis.window is not None:
            letters[axis.window] = letter
    return letters


def layout_of(map_: ir.AffineMap, letters: Mapping[int, str], axes: Sequence[Axis]) -> str | None:
    """Return the layout of an operand, such as ``NCHW``: the letter of each dimension in order.

    A dimension has the letter of the loop that indexes it; a dimension along which windows move has
    the letter of its axis. Return None if a dimension has no letter, or if two dimensions have the
    same letter.

    Args:
        map_: the operand's indexing map.
        letters: maps the index of each loop to its letter.
        axes: the spatial axes, each with its loop over the result.
    """
    spatial = {axis.loop: letters[axis.loop] for axis in axes}
    found: list[str] = []
    for expr in map_.results:
        loop = plain_dim(expr)
        form = linear_form(expr)
        if loop is None and form is not None:
            loop = next((each for each in form.coefficients if each in spatial), None)
        if loop is None or loop not in letters:
            return None
        found.append(letters[loop])
    return "".join(found) if len(set(found)) == len(found) else None


def window_attributes(op: Structured, axes: Sequence[Axis]) -> dict[str, Attribute]:
    """Return the attributes of a pool or convolution that describe its windows.

    They are the size, stride and dilation per axis.
    """
    sizes = tuple(1 if axis.window is None else op.extents[axis.window] for axis in axes)
    return {
        "kernel": sizes,
        "strides": tuple(axis.stride for axis in axes),
        "dilations": tuple(axis.dilation for axis in axes),
    }


@dataclass(frozen=True)
class Image:
    """The original image of a windowed operation: before padding and before grouping of channels.

    Attributes:
        value: the original image.
        layout: the layout of ``value``, such as ``NCHW``.
        pads: padding before each spatial dimension, then after each, in elements.
        operations: the operations between ``value`` and the windowed operation, if any: a padding,
            and a reshape that splits channels into groups.
    """

    value: ir.Value
    layout: str
    pads: tuple[int, ...]
    operations: tuple[ir.Operation, ...] = ()


def source_image(value: ir.Value, layout: str, border: float) -> Image:
    """Return the original image of a windowed operation: before padding and grouping of channels.

    A padding or a reshape counts as part of the windowed operation only if its result has a single
    use.

    Args:
        value: the image that the windowed operation reads.
        layout: the layout of ``value``; ``GC`` stands for channels that are split into groups.
        border: the padding value that the windowed operation requires. A padding with another
            value, or of dimensions that are not spatial, is part of the original image.
    """
    owner = value.owner
    if isinstance(owner, ir.Block) or not is_only_use(value) or "GC" not in layout:
        return _without_padding(value, layout, border)
    if owner.name != "tensor.expand_shape":
        return _without_padding(value, layout, border)
    if not joins_dimension(owner.operation, layout.index("G")):
        return _without_padding(value, layout, border)
    whole = _without_padding(owner.operands[0], layout.replace("GC", "C"), border)
    return replace(whole, operations=(*whole.operations, owner.operation))


def joins_dimension(reshape: ir.Operation, dim: int) -> bool:
    """Whether a reshape only merges dimensions ``dim`` and ``dim + 1``, or is the inverse reshape.

    The inverse reshape only splits a single dimension into ``dim`` and ``dim + 1``.
    """
    groups = [len(group) for group in reassociation(reshape)]
    return groups == [2 if at == dim else 1 for at in range(len(groups))]


def _without_padding(value: ir.Value, layout: str, border: float) -> Image:
    spatial = [layout.index(letter) for letter in _SPATIAL if letter in layout]
    plain = Image(value, layout, (0,) * (2 * len(spatial)))
    owner = value.owner
    pad = None if isinstance(owner, ir.Block) else find_constant_pad(owner.opview)
    if isinstance(owner, ir.Block) or pad is None or not is_only_use(value):
        return plain
    others = [dim for dim in range(len(layout)) if dim not in spatial]
    if scalar_constant(pad.border) != border or any(pad.low[d] or pad.high[d] for d in others):
        return plain
    widths = (*(pad.low[dim] for dim in spatial), *(pad.high[dim] for dim in spatial))
    return Image(pad.source, layout, widths, (owner.operation,))


def is_only_use(value: ir.Value) -> bool:
    """Whether a value has exactly one use."""
    return len(list(value.uses)) == 1
