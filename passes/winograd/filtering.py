"""Computes the three matrices of Winograd's minimal filtering F(m, r).

Minimal filtering computes m results of a filter of r taps by m + r - 1 multiplications, where the
direct computation has m * r. As a linear map, filtering is the transpose of a product of two
polynomials: the filter, with r coefficients, and a polynomial with m coefficients. The product is
interpolated from the values of both polynomials at m + r - 2 points and at infinity (Winograd,
*Arithmetic Complexity of Computations*, 1980; Lavin and Gray, *Fast Algorithms for Convolutional
Neural Networks*, CVPR 2016).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import prod

from rammer_mlir.passes.ir.constants import Matrix

_POINTS = (0, 1, -1, 2, -2)
"""Interpolation points in the order of use: powers of large points lose precision."""


@dataclass(frozen=True)
class Filtering:
    """Transform matrices of Winograd's minimal filtering F(outputs, taps), in one dimension.

    ``result = inverse @ ((kernel @ filter) * (data @ inputs))``, where ``*`` is elementwise. The
    names G, B and A are those of Lavin and Gray.

    Attributes:
        outputs: m, the number of results per tile.
        taps: r, the number of filter taps.
        kernel: filter transform, G: [m + r - 1, r].
        data: input transform, B transposed: [m + r - 1, m + r - 1].
        inverse: output transform, A transposed: [m, m + r - 1].
    """

    outputs: int
    taps: int
    kernel: Matrix
    data: Matrix
    inverse: Matrix

    @property
    def size(self) -> int:
        """The count of a tile's inputs, and also of its multiplications, along one dimension."""
        return self.outputs + self.taps - 1


def minimal_filtering(outputs: int, taps: int) -> Filtering:
    """Return the matrices of F(outputs, taps), for ``outputs + taps`` of at most 7.

    The module lists interpolation points for such small tiles only.
    """
    points = [Fraction(point) for point in _POINTS[: outputs + taps - 2]]
    assert len(points) == outputs + taps - 2, "points are listed for small tiles only"
    others = [[other for other in points if other != point] for point in points]
    scale = [prod(p - o for o in rest) for p, rest in zip(points, others, strict=True)]
    size = len(points) + 1
    kernel = [
        *([p**k / s for k in range(taps)] for p, s in zip(points, scale, strict=True)),
        _unit(taps - 1, taps),
    ]
    data = [*([*_with_roots(rest), Fraction(0)] for rest in others), _with_roots(points)]
    inverse = [[*(p**k for p in points), Fraction(int(k == outputs - 1))] for k in range(outputs)]
    assert all(len(row) == size for row in (*data, *inverse))
    return Filtering(outputs, taps, _floats(kernel), _floats(data), _floats(inverse))


def _with_roots(roots: list[Fraction]) -> list[Fraction]:
    """Return the coefficients of the monic polynomial with these roots, lowest power first."""
    found = [Fraction(1)]
    for root in roots:
        higher, scaled = [Fraction(0), *found], [*(-root * c for c in found), Fraction(0)]
        found = [a + b for a, b in zip(higher, scaled, strict=True)]
    return found


def _unit(position: int, length: int) -> list[Fraction]:
    return [Fraction(int(n == position)) for n in range(length)]


def _floats(rows: list[list[Fraction]]) -> Matrix:
    return tuple(tuple(map(float, row)) for row in rows)
