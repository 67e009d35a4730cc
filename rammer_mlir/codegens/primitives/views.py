"""Defines views: the sizes and strides by which a library accesses a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rammer_mlir.codegens.inexpressible import NotExpressibleError

Dims = tuple[int, ...]


@dataclass(frozen=True)
class View:
    """The size and the stride, in elements, of each dimension of a tensor."""

    dims: Dims
    strides: Dims

    @property
    def is_dense(self) -> bool:
        """Whether the elements are in row-major order without gaps."""
        strides = zip(self.dims, self.strides, dense(self.dims).strides, strict=True)
        # The stride of a dimension of size 1 is arbitrary.
        return all(size == 1 or given == row_major for size, given, row_major in strides)

    def permuted(self, order: Sequence[int]) -> View:
        """Return the view whose dimension i is dimension ``order[i]`` of this view."""
        return View(*(tuple(sizes[dim] for dim in order) for sizes in (self.dims, self.strides)))

    def spread(self, places: Sequence[int], rank: int) -> View:
        """Return a view of rank ``rank`` that has dimension i of this view at index ``places[i]``.

        All other dimensions of the result have size 1. A dimension i with a negative ``places[i]``
        is dropped; it must have size 1.

        Raises:
            NotExpressibleError: if two elements of ``places`` are equal and not negative.
        """
        kept = [(place, n) for n, place in enumerate(places) if place >= 0]
        if len({place for place, _ in kept}) < len(kept):
            raise NotExpressibleError("a diagonal")
        # The stride of a dimension of size 1 is arbitrary, unless it lies inside another dimension.
        outside = max((n * s for n, s in zip(self.dims, self.strides, strict=True)), default=1)
        dims, strides = [1] * rank, [outside] * rank
        for place, n in kept:
            dims[place], strides[place] = self.dims[n], self.strides[n]
        return View(tuple(dims), tuple(strides))

    def joined(self, dim: int) -> View:
        """Return the view with dimensions ``dim`` and ``dim + 1`` collapsed into one dimension.

        Raises:
            NotExpressibleError: if the collapsed dimension has no single stride.
        """
        outer, inner = self.dims[dim : dim + 2]
        step, small = self.strides[dim : dim + 2]
        if outer > 1 and inner > 1 and step != inner * small:
            raise NotExpressibleError("dimensions that lie apart")
        strides = (*self.strides[:dim], small if inner > 1 else step, *self.strides[dim + 2 :])
        return View((*self.dims[:dim], outer * inner, *self.dims[dim + 2 :]), strides)


def dense(dims: Sequence[int]) -> View:
    """Return the row-major view of a contiguous tensor of sizes ``dims``."""
    strides = [1]
    for size in reversed(dims[1:]):
        strides.append(strides[-1] * max(size, 1))
    return View(tuple(dims), tuple(reversed(strides)) if dims else ())
