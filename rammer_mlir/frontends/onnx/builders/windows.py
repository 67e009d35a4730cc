"""Describes windows that slide over spatial dimensions: kernels, strides, dilations, padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rammer_mlir.frontends.onnx.builders.node import Node


@dataclass(frozen=True)
class Window:
    """A sliding window; each field has an element for each spatial dimension.

    ``kernel`` has the count of taps; ``low`` and ``high`` are the widths of the padding before and
    after the data.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]

    @property
    def extents(self) -> list[int]:
        """Extents of a window: kernel sizes including the gaps of dilation."""
        pairs = zip(self.kernel, self.dilations, strict=True)
        return [(size - 1) * dilation + 1 for size, dilation in pairs]

    def output_space(self, space: Sequence[int]) -> list[int]:
        """Return the number of windows along each dimension.

        ``space`` has the extents of the data without padding; the windows also cover the padding.
        """
        return [
            (low + size + high - extent) // stride + 1
            for size, low, high, extent, stride in zip(
                space, self.low, self.high, self.extents, self.strides, strict=True
            )
        ]


def window_of(node: Node, space: Sequence[int], kernel: Sequence[int]) -> Window:
    """Return a node's sliding window over data of extents ``space``.

    The padding is that of the attribute ``pads``, or is computed if the attribute ``auto_pad`` asks
    for it. ``kernel`` has the number of taps of each spatial dimension.
    """
    rank = len(space)
    strides = tuple(node.attribute("strides") or [1] * rank)
    dilations = tuple(node.attribute("dilations") or [1] * rank)
    window = Window(tuple(kernel), strides, dilations, (0,) * rank, (0,) * rank)
    mode = node.attribute("auto_pad", "NOTSET")
    if mode == "VALID":
        return window
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        total = [
            max((-(-size // stride) - 1) * stride + extent - size, 0)
            for size, stride, extent in zip(space, strides, window.extents, strict=True)
        ]
        less, more = tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)
        low, high = (less, more) if mode == "SAME_UPPER" else (more, less)
        return Window(window.kernel, strides, dilations, low, high)
    pads = node.attribute("pads") or [0] * (2 * rank)
    return Window(window.kernel, strides, dilations, tuple(pads[:rank]), tuple(pads[rank:]))
