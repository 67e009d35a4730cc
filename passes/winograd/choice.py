"""Chooses among variants of Winograd's minimal filtering, by estimated cycles of a core.

A variant with fewer multiplications reads more weights (16 or 36 instead of 9 for each pair of
channels), and writes and reads transformed tiles. These costs dominate for small images, where all
weights are read for a few tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from rammer_mlir.passes.ir.structured import shape_of
from rammer_mlir.passes.winograd.blocked_convolution import BlockedConvolution
from rammer_mlir.passes.winograd.filtering import Filtering, minimal_filtering

TAPS = 3
"""The number of rows, and of columns, of the supported windows."""

OUTPUTS = (2, 4)
"""The possible numbers of rows, and of columns, of a tile's results.

The rounding errors of larger tiles are too large for f32.
"""

_MULTIPLY_ADDS = 32
"""Multiply-accumulates per cycle of a core: two AVX-512 operations."""

_PRODUCT = 1.1
"""Factor by which a product with short rows, of few tiles, is slower than with long rows."""

_TRANSFORM = 4.5
"""Cycles for each register of a transformed tile: load, additions, and store."""

_WEIGHT_BYTES = 5.0
"""Bytes of weights that a core reads per cycle, mostly from memory, while it computes."""

_SHARED_BYTES = 9.0
"""Bytes that a core reads or writes per cycle in the shared cache."""

_OWN_CACHE = 1 << 20
"""Bytes that stay in a core's private cache although other data streams through it."""

_OPERATOR = 10_000
"""Cycles of an additional rOperator, during which cores wait for each other."""

_GAIN = 0.9
"""Maximum ratio of Winograd's cycles to those of direct convolution for which it is used.

The ratio is below 1 because Winograd's rounding errors are larger.
"""


@dataclass(frozen=True)
class Form:
    """A variant of Winograd's filtering F(m, 3) along rows and columns.

    Attributes:
        filtering: the matrices of F(m, 3).
        strips: True for a single rOperator, whose rTasks each transform a strip of the image (a row
            of tiles), multiply it by the weights and transform it back; False for a separate
            rOperator for each of these three steps.
    """

    filtering: Filtering
    strips: bool


@dataclass(frozen=True)
class Sizes:
    """The sizes that determine a convolution's cost.

    Attributes:
        images: count of images.
        channels: count of input channels per group.
        filters: count of filters per group.
        rows: count of rows of the result.
        columns: count of columns of the result.
        groups: count of groups.
        transposes: count of transposed results, each written by an additional rOperator.
    """

    images: int
    channels: int
    filters: int
    rows: int
    columns: int
    groups: int = 1
    transposes: int = 0

    @staticmethod
    def of(convolution: BlockedConvolution) -> Sizes:
        """Return the sizes that determine the cost of a convolution in blocks of channels."""
        images, *groups, blocks, rows, columns, lanes = convolution.shape
        weight = convolution.computation.block.arguments[convolution.weight]
        channels = shape_of(weight)[-5] * lanes
        transposes = len(convolution.transposes)
        return Sizes(images, channels, blocks * lanes, rows, columns, prod(groups), transposes)


def forms(convolution: BlockedConvolution) -> list[Form]:
    """Return the possible variants for a convolution; empty if its window is not 3 x 3.

    If an operand of the epilogue has rows and columns, as in the addition of another image, the
    operand is split into tiles too. Then only tile sizes that divide the result's rows and columns
    are possible.
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
    """Return the variant in ``found`` with the fewest estimated cycles.

    Return None if ``found`` is empty. Unless ``always``, also return None if the variant takes more
    than the share ``_GAIN`` of the cycles of direct convolution.
    """
    sizes = Sizes.of(convolution)
    best = min(found, key=lambda form: cycles(sizes, form), default=None)
    if best is None or always:
        return best
    return best if cycles(sizes, best) < _GAIN * direct_cycles(sizes) else None


def direct_cycles(sizes: Sizes) -> float:
    """Return the estimated cycles of a core for a direct convolution."""
    weights = sizes.groups * sizes.channels * sizes.filters * TAPS**2
    points = sizes.images * sizes.rows * sizes.columns
    return points * weights / _MULTIPLY_ADDS + 4 * weights / _WEIGHT_BYTES + _OPERATOR


def cycles(sizes: Sizes, form: Form) -> float:
    """Return the estimated cycles of a core for a convolution by a Winograd variant."""
    outputs, size = form.filtering.outputs, form.filtering.size
    strips, strip = sizes.images * -(-sizes.rows // outputs), -(-sizes.columns // outputs)
    group = 4 * sizes.channels * sizes.filters * size**2
    weights = sizes.groups * group
    transformed = sizes.groups * strips * strip * size**2 * (sizes.channels + sizes.filters)
    arithmetic = strips * strip * weights / 4 / _MULTIPLY_ADDS * _PRODUCT
    total = arithmetic + transformed / 16 * _TRANSFORM + weights / _WEIGHT_BYTES
    # A transposing rOperator reads the results, which Winograd's rOperators write first.
    result = 4 * sizes.images * sizes.groups * sizes.filters * sizes.rows * sizes.columns
    total += sizes.transposes * (_OPERATOR + 2 * result / _SHARED_BYTES)
    if not form.strips:  # sums and tiles are written once and read once
        moved = 2 * 4 * transformed
        return total + 3 * _OPERATOR + (moved / _SHARED_BYTES if moved > _OWN_CACHE else 0)
    again = weights * (strips - 1) if group > _OWN_CACHE else 0
    return total + _OPERATOR + again / _SHARED_BYTES


def _strip_bytes(sizes: Sizes, outputs: int) -> int:
    """Return the bytes that the rTask of a strip keeps: its transformed tiles and their sums.

    A strip is a row of tiles. The sums are the products of transformed tiles and weights, summed
    over the channels. A tile has ``outputs`` rows and columns of results.
    """
    size = outputs + TAPS - 1
    tiles = -(-sizes.columns // outputs)
    return 4 * prod((tiles, size, size, sizes.channels + sizes.filters))
