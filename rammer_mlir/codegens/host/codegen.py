"""Defines the code generator ``host``: quantization rewrites its regions before compilation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rammer_mlir.passes.regions.codegen import HOST, RegionFacts
from rammer_mlir.passes.regions.interval_partition import Limits
from rammer_mlir.passes.regions.patterns import (
    CompositePattern,
    Pattern,
    alternatives,
    op,
    wildcard,
)
from rammer_mlir.passes.regions.reading import Reading
from rammer_mlir.scheduling.device_costs import Device

_RANKS = ("1d", "2d", "3d")
_CONTRACTIONS = (
    "matmul", "batch_matmul", *(f"conv{r}" for r in _RANKS), *(f"depthwise_conv{r}" for r in _RANKS)
)  # fmt: skip

_ACTIVATIONS = ("relu", "clip", "sigmoid", "swish", "gelu", "hard_swish", "leaky_relu", "tanh")

_MOST_STEPS = 3
"""Largest number of element-wise functions after a contraction: bias, sum, activation."""


def _step(value: Pattern) -> Pattern:
    return alternatives(op(_ACTIVATIONS, value), op(("add", "mul"), value, wildcard()))


def _layer() -> Pattern:
    layer: Pattern = op(_CONTRACTIONS)
    for _ in range(_MOST_STEPS):
        layer = layer.optional(_step)
    return layer


class Host:
    """Forms a region of each contraction with its element-wise consumers, and generates no code.

    The host computes these regions with its own rKernels. The regions exist so that quantization
    can rewrite their operations.
    """

    name: ClassVar[str] = HOST

    def patterns(self) -> Sequence[CompositePattern]:
        """Return the pattern of a contraction with up to three element-wise functions after it."""
        return [CompositePattern("host.layer", _layer())]

    def supports(self, reading: Reading) -> bool:
        """Whether an operation is a contraction, or has an operand or result that is not f32."""
        is_f32 = all(o.element_type == "f32" for o in (*reading.inputs, reading.output))
        return reading.kind in _CONTRACTIONS or not is_f32

    def limits(self) -> Limits:
        """Return the limit of a region: one match of the pattern, or one unmatched operation."""
        return Limits(operations=1)

    def worth(self, facts: RegionFacts, device: Device) -> bool:
        """Return whether a region has multiply-accumulate operations, that is, a contraction."""
        return facts.macs > 0

    def version(self) -> str:
        """Return "" as the version, because regions depend on no foreign library."""
        return ""
