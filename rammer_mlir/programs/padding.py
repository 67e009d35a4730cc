"""Describes how to pad data-dependent sizes, so that a few compiled sizes serve all sizes.

A row is a slice along an axis of data-dependent size. If a part computes each row independently of
other rows, it can compute more rows than the data has: its inputs are padded, and its outputs are
sliced to the true sizes, that is, the sizes without padding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.programs.dimensions import Shape

Array = NDArray[Any]

_SMALLEST = 8
_FINE = 64
"""From this size on, powers of two times 1.5 are compiled sizes too, to limit the padding."""


@dataclass(frozen=True)
class PaddedInput:
    """An input that is padded along axes of data-dependent size, or whose elements are checked.

    Attributes:
        name: name of the input.
        axes: (axis, group) pairs of the padded axes, possibly none. The integer ``group``
            identifies axes that must have the same size before padding.
        is_last: whether padding elements have the value (padded size - 1), which is the index of a
            padding row, instead of 0.
        is_index: whether the elements are indices; no input is padded if an index is negative.
    """

    name: str
    axes: tuple[tuple[int, int], ...]
    is_last: bool = False
    is_index: bool = False


@dataclass(frozen=True)
class PaddedOutput:
    """An output, and its axes of data-dependent size.

    Attributes:
        axes: (axis, group, factor) triples. The integer ``group`` identifies input axes of equal
            size, as in ``PaddedInput``. The size of ``axis`` is ``factor`` times the size of these
            input axes.
    """

    axes: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class Padding:
    """How to pad the inputs of a part, and how to slice the part's outputs to their true sizes.

    A true size is a size without padding. A group is a set of input axes that must have equal true
    sizes; an integer identifies the group. The axes of all groups are padded to the same size.

    Attributes:
        inputs: the inputs to pad, and the inputs whose elements are indices, which must not be
            negative.
        outputs: all outputs, in order.
        has_spare: whether the padded size must exceed the largest true size, so that there is at
            least one padding row.
        most: upper bound on the true size of any group; None if unknown.
    """

    inputs: tuple[PaddedInput, ...]
    outputs: tuple[PaddedOutput, ...]
    has_spare: bool = False
    most: int | None = None

    def sizes(self, feeds: Mapping[str, Array]) -> dict[int, int] | None:
        """Return the true size (without padding) of each group of input axes, by group.

        The axes of a group must have equal sizes. ``feeds`` are arrays by input name. Return None
        if the inputs must not be padded, because an index is negative, or axes of a group have
        different sizes.
        """
        found: dict[int, int] = {}
        for each in self.inputs:
            value = feeds[each.name]
            if each.is_index and value.size and value.min() < 0:
                return None
            for axis, group in each.axes:
                if found.setdefault(group, value.shape[axis]) != value.shape[axis]:
                    return None
        return found

    def needed(self, sizes: Mapping[int, int]) -> int:
        """Return the smallest padded size that serves the true sizes ``sizes``, by group of axes.

        This is the greatest true size, plus 1 for a padding row if ``has_spare``.
        """
        return max(sizes.values()) + self.has_spare

    def step(self, needed: int) -> int:
        """Return the smallest allowed size (step) that is at least ``needed``.

        The allowed sizes are 8, 16, 32, 64, 96, ..., and the size that the bound ``most`` needs.
        Inputs are padded to these sizes only, so that few specializations are compiled.
        """
        return next(size for size in self._steps() if size >= needed)

    def steps(self, most: int | None = None) -> list[int]:
        """Return the allowed sizes (steps) that together serve all sizes up to a bound, ascending.

        The allowed sizes are those that ``step`` can return.

        Args:
            most: an upper bound of the sizes without padding; None for no bound other than
                ``self.most``. The smaller of both bounds applies.

        Returns:
            The allowed sizes; empty if both bounds are None.
        """
        bounds = [bound for bound in (most, self.most) if bound is not None]
        if not bounds:
            return []
        last = self.step(min(bounds) + self.has_spare)
        found: list[int] = []
        for size in self._steps():
            found.append(size)
            if size >= last:
                return found
        return found

    def _steps(self) -> Iterator[int]:
        limit = None if self.most is None else self.most + self.has_spare
        for size in _compiled_sizes():
            if limit is not None and size >= limit:
                yield max(limit, 1)
                limit = None
            yield size

    def size_of(self, shapes: Mapping[str, Shape]) -> int | None:
        """Return the size that all padded axes have in ``shapes``; None if their sizes differ.

        ``shapes`` are shapes by input name. The result is also None if no axis is padded.
        """
        found = {shapes[each.name][axis] for each in self.inputs for axis, _ in each.axes}
        return found.pop() if len(found) == 1 else None

    def shapes(self, shapes: Mapping[str, Sequence[Any]], size: int) -> dict[str, Shape]:
        """Return a copy of ``shapes`` in which all padded axes have the size ``size``.

        ``shapes`` are shapes by input name.
        """
        found = {name: list(shape) for name, shape in shapes.items()}
        for each in self.inputs:
            for axis, _ in each.axes:
                found[each.name][axis] = size
        return {name: tuple(shape) for name, shape in found.items()}

    def pad(self, feeds: Mapping[str, Array], size: int) -> dict[str, Array]:
        """Return a copy of ``feeds`` in which the padded axes are extended to ``size``.

        ``feeds`` are arrays by input name. The additional elements are 0; in an input with
        ``is_last``, they are ``size - 1``.
        """
        found = dict(feeds)
        for each in self.inputs:
            if each.axes:
                found[each.name] = _padded(feeds[each.name], each, size)
        return found

    def cut(self, outputs: Sequence[Array], sizes: Mapping[int, int]) -> list[Array]:
        """Return the outputs without the rows that were computed from padding.

        A row is a slice along an axis of data-dependent size. ``outputs`` are in the part's order;
        ``sizes`` are the sizes without padding, by group of input axes.
        """
        found: list[Array] = []
        for value, output in zip(outputs, self.outputs, strict=True):
            places = [slice(None)] * value.ndim
            for axis, group, factor in output.axes:
                places[axis] = slice(sizes[group] * factor)
            cut = value[tuple(places)]
            found.append(cut if cut.flags.c_contiguous else np.ascontiguousarray(cut))
        return found


def _padded(value: Array, how: PaddedInput, size: int) -> Array:
    shape = list(value.shape)
    for axis, _ in how.axes:
        shape[axis] = size
    found = np.full(shape, size - 1 if how.is_last else 0, value.dtype)
    found[tuple(map(slice, value.shape))] = value
    return found


def _compiled_sizes() -> Iterator[int]:
    """Yield the sizes 8, 16, 32, 64, 96, 128, 192, 256, ... without end.

    Inputs are padded to these sizes, and specializations are compiled for them.
    """
    size = _SMALLEST
    while True:
        yield size
        if size >= _FINE:
            yield size + size // 2
        size *= 2
