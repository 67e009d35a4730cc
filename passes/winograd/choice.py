"""Which form of Winograd's minimal filtering a convolution takes: estimated cycles of a core.

Fewer multiplications are paid for with more weights (16 or 36 for 9) and with transformed tiles
that are written and read. Both decide at small images, where all weights are read for a few tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from rammer_mlir.passes.ir.structured import shape_of
from rammer_mlir.passes.winograd.blocked_convolution import BlockedConvolution
from rammer_mlir.passes.winograd.filtering import Filtering, minimal_filtering

TAPS = 3
"""Rows and columns of the windows that are computed so."""

OUTPUTS = (2, 4)
"""Rows and columns of results of a tile; the errors of larger ones are too large for f32."""

_MULTIPLY_ADDS = 32
"""Multiply-adds of a cycle: two AVX-512 operations."""

_PRODUCT = 1.1
"""How much longer a product takes whose rows are a few tiles only."""

_TRANSFORM = 4.5
"""Cycles for each register of a tile that is transformed: it is loaded, added up, and stored."""

_WEIGHT_BYTES = 5.0
"""Bytes of weights that a core reads in a cycle, beside the arithmetic: from memory, mostly."""

_SHARED_BYTES = 9.0
"""Bytes that a core reads or writes in a cycle in the cache that it shares with others."""

_OWN_CACHE = 1 << 20
"""Bytes that stay in a core's own cache beside what streams through it."""

_OPERATOR = 10_000
"""Cycles that one more rOperator costs: cores wait for each other."""

_GAIN = 0.9
"""The share of the cycles that must be left to be worth another form, and its rounding errors."""


@dataclass(frozen=True)
class Form:
    """F(m, 3) along rows and columns; in one rOperator by strips, or in three."""

    filtering: Filtering
    strips: bool


@dataclass(frozen=True)
class Sizes:
    """What a convolution's cost depends on.

    Attributes:
        images, channels, filters: numbers of each; channels and filters of one group.
        rows, columns: of the result.
        groups: parts of the channels, each with filters of its own.
    """

    images: int
    channels: int
    filters: int
    rows: int
    columns: int
    groups: int = 1

    @staticmethod
    def of(convolution: BlockedConvolution) -> Sizes:
        """Read them off a convolution in blocks of channels."""
        images, *groups, blocks, rows, columns, lanes = convolution.shape
        weight = convolution.computation.block.arguments[convolution.weight]
        channels = shape_of(weight)[-5] * lanes
        return Sizes(images, channels, blocks * lanes, rows, columns, prod(groups))


def forms(convolution: BlockedConvolution) -> list[Form]:
    """List the forms that are possible.

    What follows with rows and columns of its own, like a sum with another image, is cut into tiles
    too: these then have to divide the result.
    """
    if convolution.window != (TAPS, TAPS):
        return []
    sizes = Sizes.of(convolution)
    return [
        Form(minimal_filtering(outputs, TAPS), strips)
        for outputs in OUTPUTS
        if not convolution.expanded or not (sizes.rows % outputs or sizes.columns % outputs)
        for strips in (True, False)
        if not strips or _strip_bytes(sizes, outputs) <= 2 * _OWN_CACHE
    ]


def choose_form(
    convolution: BlockedConvolution, found: Sequence[Form], always: bool = False
) -> Form | None:
    """Return the cheapest of some forms, None where the convolution itself is cheaper."""
    sizes = Sizes.of(convolution)
    best = min(found, key=lambda form: cycles(sizes, form), default=None)
    if best is None or always:
        return best
    return best if cycles(sizes, best) < _GAIN * direct_cycles(sizes) else None


def direct_cycles(sizes: Sizes) -> float:
    """Estimate the cycles of a convolution by its definition."""
    weights = sizes.groups * sizes.channels * sizes.filters * TAPS**2
    points = sizes.images * sizes.rows * sizes.columns
    return points * weights / _MULTIPLY_ADDS + 4 * weights / _WEIGHT_BYTES + _OPERATOR


def cycles(sizes: Sizes, form: Form) -> float:
    """Estimate the cycles of a convolution in some form."""
    outputs, size = form.filtering.outputs, form.filtering.size
    strips, strip = sizes.images * -(-sizes.rows // outputs), -(-sizes.columns // outputs)
    group = 4 * sizes.channels * sizes.filters * size**2
    weights = sizes.groups * group
    transformed = sizes.groups * strips * strip * size**2 * (sizes.channels + sizes.filters)
    arithmetic = strips * strip * weights / 4 / _MULTIPLY_ADDS * _PRODUCT
    total = arithmetic + transformed / 16 * _TRANSFORM + weights / _WEIGHT_BYTES
    if not form.strips:  # sums and tiles are written once and read once
        moved = 2 * 4 * transformed
        return total + 3 * _OPERATOR + (moved / _SHARED_BYTES if moved > _OWN_CACHE else 0)
    again = weights * (strips - 1) if group > _OWN_CACHE else 0
    return total + _OPERATOR + again / _SHARED_BYTES


def _strip_bytes(sizes: Sizes, outputs: int) -> int:
    """Count the bytes of the tiles and sums of one strip."""
    size = outputs + TAPS - 1
    tiles = -(-sizes.columns // outputs)
    return 4 * prod((tiles, size, size, sizes.channels + sizes.filters))
