"""Reorders the axes of a convolution's operands to the order that libraries expect.

The order is groups, filters, channels, spatial axes; an operand may lack some of these axes. No
data is moved: the results are views.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from rammer_mlir.codegens.inexpressible import NotExpressibleError
from rammer_mlir.codegens.primitives.views import Dims, View, dense
from rammer_mlir.passes.regions.reading import Operand as Tensor
from rammer_mlir.passes.regions.reading import Reading

CONVOLUTIONS = tuple(f"{prefix}conv{n}d" for prefix in ("", "depthwise_") for n in (1, 2, 3))


def spatial_letters(conv: Reading) -> str:
    """Return the letters of a convolution's or pooling's spatial axes, such as ``HW``.

    Raises:
        NotExpressibleError: if the layout of an image has the channels after the spatial axes.
    """
    layout = str(conv.attributes["layout"])
    space = layout[-len(cast("Dims", conv.attributes["kernel"])) :]
    out = str(conv.attributes.get("output_layout", f"NF{space}"))
    images = [f"N{letters}{space}" for letters in ("C", "GC", "")]
    if layout not in images or out not in [image.replace("C", "F") for image in images]:
        raise NotExpressibleError("a layout of images")
    return space


def channel_letters(conv: Reading) -> str:
    """Return the letters of the weights' axes that precede the spatial axes, such as ``GFC``.

    G stands for groups, F for filters and C for channels.

    Raises:
        NotExpressibleError: if the axes are not in the order of groups, filters, channels and the
            image's spatial axes. Axes along which the extent is 1 may be missing.
    """
    letters, space = str(conv.attributes["weight_layout"]), spatial_letters(conv)
    found = letters.rstrip(space)
    if letters != "".join(letter for letter in f"GFC{space}" if letter in letters):
        raise NotExpressibleError("a layout of weights")
    return found


def image_view(conv: Reading, *, is_output: bool = False) -> View:
    """Return a view of a convolution's input with the axes batch, channels, spatial axes.

    With ``is_output``, return such a view of the convolution's result. If the image has an axis of
    groups, it is collapsed with the axis of channels. If an image of a single channel has no axis
    of channels, an axis of size 1 is added.

    Raises:
        NotExpressibleError: if the layout of an image has the channels after the spatial axes.
    """
    spatial_letters(conv)
    name, operand = ("output_layout", conv.output) if is_output else ("layout", conv.inputs[0])
    view = dense(operand.shape)
    if "G" in str(conv.attributes.get(name, "")):
        return view.joined(1)
    places = standard_image_axes(conv, range(operand.rank), operand)
    return view.spread(places, max(places) + 1)


def standard_image_axes(conv: Reading, places: Iterable[int], image: Tensor) -> Dims:
    """Return the indices of image axes in the order batch, channels, spatial axes.

    ``image`` is the input or the result of a convolution, ``places`` are indices of its axes. If
    the image has no axis of channels, because it has a single channel, each spatial axis moves back
    by one index to make room for this axis. Negative indices, which stand for no axis, are returned
    unchanged.
    """
    is_lacking = image.rank == len(cast("Dims", conv.attributes["kernel"])) + 1
    return tuple(place + 1 if is_lacking and place > 0 else place for place in places)


def weight_view(conv: Reading) -> View:
    """Return a view of a convolution's weights with the axes filters, channels, spatial axes.

    If the convolution has several groups, the axis of groups comes first.

    Raises:
        NotExpressibleError: if weights have other axes, or images have channels after spatial axes.
    """
    space = spatial_letters(conv)
    letters, is_grouped = str(conv.attributes["weight_layout"]), conv.attributes["groups"] != 1
    wanted = f"{'G' * is_grouped}FC{space}"
    if not set(letters) <= set(wanted) or is_grouped != ("G" in letters):
        raise NotExpressibleError("a layout of weights")
    view = dense(conv.inputs[1].shape)
    return view.spread([wanted.index(letter) for letter in letters], len(wanted))


def check_windows(reading: Reading) -> None:
    """Check that a convolution or pooling has as many windows as fit into the padded input.

    The check counts windows along each spatial axis.

    Raises:
        NotExpressibleError: if the count of windows differs, or the layout of an image has the
            channels after the spatial axes.
    """
    spatial_letters(reading)
    names = ("kernel", "strides", "dilations", "pads")
    kernel, strides, dilations, pads = (cast("Dims", reading.attributes[name]) for name in names)
    rank = len(kernel)
    padded = [
        extent + low + high
        for extent, low, high in zip(
            reading.inputs[0].shape[-rank:], pads[:rank], pads[rank:], strict=True
        )
    ]
    reaches = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    steps = zip(padded, reaches, strides, strict=True)
    counts = [(extent - reach) // stride + 1 for extent, reach, stride in steps]
    if min(counts) < 1 or tuple(counts) != reading.output.shape[-rank:]:
        raise NotExpressibleError("windows beyond the padding")
