"""Regions of the host: layers, for quantization; the host compiles them like all else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rammer_mlir.passes.regions.codegen import HOST, RegionFacts
from rammer_mlir.passes.regions.cuts import Limits
from rammer_mlir.passes.regions.patterns import (
    CompositePattern,
    Pattern,
    alternatives,
    op,
    wildcard,
)
from rammer_mlir.passes.regions.reading import Reading
from rammer_mlir.scheduling.device import Device

_RANKS = ("1d", "2d", "3d")
_CONTRACTIONS = (
    "matmul", "batch_matmul", *(f"conv{r}" for r in _RANKS), *(f"depthwise_conv{r}" for r in _RANKS)
)  # fmt: skip

_ACTIVATIONS = ("relu", "clip", "sigmoid", "swish", "gelu", "hard_swish", "leaky_relu", "tanh")

_MOST_STEPS = 3
"""Element-wise functions after a contraction: a bias, a sum of branches, an activation."""


def _step(value: Pattern) -> Pattern:
    return alternatives(op(_ACTIVATIONS, value), op(("add", "mul"), value, wildcard()))


def _layer() -> Pattern:
    layer: Pattern = op(_CONTRACTIONS)
    for _ in range(_MOST_STEPS):
        layer = layer.optional(_step)
    return layer


class Host:
    """Takes contractions with what follows on them, each as a region of its own, and has no code.

    What has no code is the host's: the regions are there to be changed, by quantization.
    """

    name: ClassVar[str] = HOST

    def patterns(self) -> Sequence[CompositePattern]:
        """Return a contraction with up to three element-wise functions."""
        return [CompositePattern("host.layer", _layer())]

    def supports(self, reading: Reading) -> bool:
        """Whether an operation is a contraction, or of other elements than f32."""
        is_f32 = all(o.element_type == "f32" for o in (*reading.inputs, reading.output))
        return reading.kind in _CONTRACTIONS or not is_f32

    def limits(self) -> Limits:
        """Return that a region is one layer."""
        return Limits(operations=1)

    def worth(self, facts: RegionFacts, device: Device) -> bool:
        """Whether a region has a contraction."""
        return facts.macs > 0

    def version(self) -> str:
        """Return that its code is this project's alone."""
        return ""
