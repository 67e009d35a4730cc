"""Defines strided layouts, which give the address of each element of a view in its buffer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod


def row_major_strides(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the strides, in elements, of a dense row-major array of these sizes."""
    strides: list[int] = []
    step = 1
    for size in reversed(sizes):
        strides.append(step)
        # An empty dimension counts as one, so that no stride becomes zero.
        step *= max(size, 1)
    return tuple(reversed(strides))


@dataclass(frozen=True)
class Layout:
    """A strided view of a buffer, with all numbers in elements.

    The element with index ``i`` is at ``offset + sum(i[d] * strides[d])``; dimension ``d`` has
    ``sizes[d]`` elements.
    """

    offset: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    @staticmethod
    def row_major(sizes: Sequence[int]) -> Layout:
        """Return the dense row-major layout of a whole buffer of these sizes."""
        return Layout(0, tuple(sizes), row_major_strides(sizes))

    @property
    def is_dense(self) -> bool:
        """Whether the elements are contiguous in row-major order."""
        expected = row_major_strides(self.sizes)
        return all(
            size <= 1 or stride == dense
            for size, stride, dense in zip(self.sizes, self.strides, expected, strict=True)
        )

    def slice(self, offsets: Sequence[int], sizes: Sequence[int], steps: Sequence[int]) -> Layout:
        """Return the layout of a slice, as in ``tensor.extract_slice``.

        Args:
            offsets: for each dimension, the first index of the slice.
            sizes: for each dimension, the number of elements of the slice.
            steps: for each dimension, the distance between adjacent elements of the slice, in
                indices of this view.
        """
        start = sum(o * s for o, s in zip(offsets, self.strides, strict=True))
        strides = tuple(k * s for k, s in zip(steps, self.strides, strict=True))
        return Layout(self.offset + start, tuple(sizes), strides)

    def collapse(self, groups: Iterable[Sequence[int]]) -> Layout | None:
        """Return the layout with each group of dimensions merged to one dimension.

        Return None if the elements of a group have no common stride.
        """
        sizes: list[int] = []
        strides: list[int] = []
        for group in groups:
            merged = self._merge(group)
            if merged is None:
                return None
            sizes.append(merged[0])
            strides.append(merged[1])
        return Layout(self.offset, tuple(sizes), tuple(strides))

    def _merge(self, group: Sequence[int]) -> tuple[int, int] | None:
        size, stride = 1, 1
        for dim in reversed(group):
            if self.sizes[dim] == 1:
                continue
            if size == 1:
                size, stride = self.sizes[dim], self.strides[dim]
            elif self.strides[dim] == size * stride:
                size *= self.sizes[dim]
            else:
                return None
        return size, stride

    def expand(self, groups: Iterable[Sequence[int]], sizes: Sequence[int]) -> Layout:
        """Return the layout with each dimension split into a group of dimensions.

        ``sizes`` lists the size of each new dimension, ``groups`` the new dimensions for each old
        dimension.
        """
        strides = [0] * len(sizes)
        for dim, group in enumerate(groups):
            step = self.strides[dim]
            for inner in reversed(group):
                strides[inner] = step
                step *= sizes[inner]
        return Layout(self.offset, tuple(sizes), tuple(strides))

    @property
    def num_elements(self) -> int:
        """The number of elements of the view."""
        return prod(self.sizes)
