"""Sizes and strides by which a library sees a tensor that lies in row-major order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rammer_mlir.codegens.inexpressible import NotExpressibleError

Dims = tuple[int, ...]


@dataclass(frozen=True)
class View:
    """Sizes of dimensions, and how many elements lie between two neighbours of each."""

    dims: Dims
    strides: Dims

    @property
    def is_dense(self) -> bool:
        """Whether all elements lie in row-major order."""
        return self == dense(self.dims)

    def permuted(self, order: Sequence[int]) -> View:
        """Return the dimensions in another order."""
        return View(*(tuple(sizes[dim] for dim in order) for sizes in (self.dims, self.strides)))

    def spread(self, places: Sequence[int], rank: int) -> View:
        """Return each dimension at its place among ``rank``; places below 0 drop one of size 1.

        Raises:
            NotExpressibleError: if two have one place.
        """
        kept = [(place, n) for n, place in enumerate(places) if place >= 0]
        if len({place for place, _ in kept}) < len(kept):
            raise NotExpressibleError("a diagonal")
        # An axis of one element may have any step that is not inside of another axis.
        outside = max((n * s for n, s in zip(self.dims, self.strides, strict=True)), default=1)
        dims, strides = [1] * rank, [outside] * rank
        for place, n in kept:
            dims[place], strides[place] = self.dims[n], self.strides[n]
        return View(tuple(dims), tuple(strides))

    def joined(self, dim: int) -> View:
        """Return a dimension and the next one as one.

        Raises:
            NotExpressibleError: if no single step leads through both.
        """
        outer, inner = self.dims[dim : dim + 2]
        step, small = self.strides[dim : dim + 2]
        if outer > 1 and inner > 1 and step != inner * small:
            raise NotExpressibleError("dimensions that lie apart")
        strides = (*self.strides[:dim], small if inner > 1 else step, *self.strides[dim + 2 :])
        return View((*self.dims[:dim], outer * inner, *self.dims[dim + 2 :]), strides)


def dense(dims: Sequence[int]) -> View:
    """Return the view of a tensor as it lies."""
    strides = [1]
    for size in reversed(dims[1:]):
        strides.append(strides[-1] * max(size, 1))
    return View(tuple(dims), tuple(reversed(strides)) if dims else ())
