"""Computes the boxes of operands that an rTask accesses, as functions of the rTask's id.

All offsets are affine expressions in the rTask's id. All sizes are the static sizes of a full tile;
a tile at the edge of the iteration space is clipped to the operand's shape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rammer_mlir.bindings import ir


@dataclass(frozen=True)
class Span:
    """The part of a loop that a tile covers.

    Attributes:
        offset: the first iteration as an expression of the rTask id.
        size: the number of iterations in the tile.
        extent: the trip count of the whole loop.
    """

    offset: ir.AffineExpr
    size: int
    extent: int

    @property
    def is_whole(self) -> bool:
        """Whether the tile covers the whole loop."""
        return self.size == self.extent


@dataclass(frozen=True)
class Box:
    """The part of an operand that an rTask accesses.

    ``offsets`` lists an expression of the rTask id for each dimension, ``sizes`` the static size of
    a full tile, both in elements.
    """

    offsets: tuple[ir.AffineExpr, ...]
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Linear:
    """The linear form ``constant + sum(coefficients[d] * d)`` over loop dimensions ``d``."""

    coefficients: Mapping[int, int]
    constant: int

    def factors(self, dims: int) -> list[int]:
        """Return the coefficients of the first ``dims`` dimensions, 0 for absent ones."""
        return [self.coefficients.get(dim, 0) for dim in range(dims)]


def linear_form(expr: ir.AffineExpr) -> Linear | None:
    """Return the linear form of an index expression; None if the expression is not linear."""
    if isinstance(expr, ir.AffineDimExpr):
        return Linear({expr.position: 1}, 0)
    if isinstance(expr, ir.AffineConstantExpr):
        return Linear({}, expr.value)
    if isinstance(expr, ir.AffineAddExpr):
        lhs, rhs = linear_form(expr.lhs), linear_form(expr.rhs)
        if lhs is None or rhs is None:
            return None
        terms = dict(lhs.coefficients)
        for dim, factor in rhs.coefficients.items():
            terms[dim] = terms.get(dim, 0) + factor
        return Linear(terms, lhs.constant + rhs.constant)
    if isinstance(expr, ir.AffineMulExpr):
        lhs, rhs = linear_form(expr.lhs), linear_form(expr.rhs)
        if lhs is None or rhs is None or rhs.coefficients:
            return None
        factor = rhs.constant
        terms = {dim: k * factor for dim, k in lhs.coefficients.items()}
        return Linear(terms, lhs.constant * factor)
    return None


PANEL_WIDTHS = (32, 16)
"""Possible numbers of consecutive iterations of a loop in a panel, the widest first.

Operands are packed so that the elements of a panel are contiguous. Tiles of loops over panels are
whole panels of any of these widths: multiples of ``WIDEST_PANEL``. A panel of 32 f32 fills two
registers of AVX-512; one of 16 fills two of AVX2, and a cache line.
"""

WIDEST_PANEL = PANEL_WIDTHS[0]


@dataclass(frozen=True)
class PanelIndex:
    """An index expression ``loop floordiv width`` or ``loop mod width``.

    Such expressions index an operand that is stored in panels.

    Attributes:
        loop: the index of the loop dimension.
        is_number: True for ``floordiv``, which gives the index of a panel; False for ``mod``, which
            gives the position within a panel.
        width: the number of iterations of the loop in a panel, one of ``PANEL_WIDTHS``.
    """

    loop: int
    is_number: bool
    width: int


def panel_index(expr: ir.AffineExpr) -> PanelIndex | None:
    """Return the loop and the panel width of ``loop floordiv width`` or ``loop mod width``.

    Return None for any other expression, and if ``width`` is not in ``PANEL_WIDTHS``.
    """
    if not isinstance(expr, ir.AffineFloorDivExpr | ir.AffineModExpr):
        return None
    if not isinstance(expr.lhs, ir.AffineDimExpr):
        return None
    if not isinstance(expr.rhs, ir.AffineConstantExpr) or expr.rhs.value not in PANEL_WIDTHS:
        return None
    is_number = isinstance(expr, ir.AffineFloorDivExpr)
    return PanelIndex(expr.lhs.position, is_number, expr.rhs.value)


def panel_number(index: ir.AffineExpr, width: int) -> ir.AffineExpr:
    """Return ``index floordiv width``: the index of the panel with iteration ``index``."""
    return ir.AffineExpr.get_floor_div(index, ir.AffineExpr.get_constant(width))


def point_of_panel(index: ir.AffineExpr, width: int) -> ir.AffineExpr:
    """Return ``index mod width``: the position of iteration ``index`` in its panel."""
    return ir.AffineExpr.get_mod(index, ir.AffineExpr.get_constant(width))


def loops_in(expr: ir.AffineExpr) -> set[int]:
    """Return the indices of the loops that an index expression depends on."""
    if isinstance(expr, ir.AffineDimExpr):
        return {expr.position}
    if isinstance(expr, ir.AffineBinaryExpr):
        return loops_in(expr.lhs) | loops_in(expr.rhs)
    return set()


def can_slice(expr: ir.AffineExpr, tiled: set[int]) -> bool:
    """Whether a tile is known to access consecutive indices of a dimension indexed by ``expr``.

    The tile covers a part of the loops ``tiled``, and the whole of every other loop. The result is
    True

    - for a linear expression that uses none of the tiled loops,
    - for a linear expression with a constant and coefficients of at least 0,
    - for a panel index, because tiles consist of whole panels,
    - for any other expression if no loop is tiled.
    """
    if panel_index(expr) is not None:
        return True
    form = linear_form(expr)
    if form is None:
        return not tiled
    used = tiled & form.coefficients.keys()
    return not used or (form.constant >= 0 and all(k >= 0 for k in form.coefficients.values()))


def operand_box(map_: ir.AffineMap, spans: Sequence[Span], shape: Sequence[int]) -> Box:
    """Return the box of an operand that a tile accesses.

    Args:
        map_: the indexing map of the operand.
        spans: the part of each loop that the tile covers.
        shape: the shape of the operand.
    """
    offsets: list[ir.AffineExpr] = []
    sizes: list[int] = []
    for expr, extent in zip(map_.results, shape, strict=True):
        offset, size = _dimension_box(expr, spans, extent)
        offsets.append(offset)
        sizes.append(size)
    return Box(tuple(offsets), tuple(sizes))


def _dimension_box(
    expr: ir.AffineExpr, spans: Sequence[Span], extent: int
) -> tuple[ir.AffineExpr, int]:
    zero = ir.AffineExpr.get_constant(0)
    place = panel_index(expr)
    if place is not None and place.is_number and not spans[place.loop].is_whole:
        span = spans[place.loop]
        return panel_number(span.offset, place.width), -(-span.size // place.width)
    form = linear_form(expr)
    if form is None or all(spans[dim].is_whole for dim in form.coefficients):
        return zero, extent
    offset, size = zero, form.constant + 1
    for dim, factor in sorted(form.coefficients.items()):
        offset = offset + spans[dim].offset * factor
        size += factor * (spans[dim].size - 1)
    return offset, min(size, extent)
