"""Records facts about values of a part (a subgraph to compile), such as open dimensions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
import onnx

from rammer_mlir.frontends.onnx.tensors import Array

STAND_IN = 13
"""Static size that ONNX's shape inference sees for every open dimension."""

_MOST_CONTENT = 64
"""Largest length of a list of integers whose elements are tracked through the nodes."""


class DependentRowsError(Exception):
    """Raised for a node that prevents padding of an open dimension.

    A row has the elements at one index of the open dimension; padding adds rows at the end. The
    node combines elements of several rows, or no rule proves that the rows are independent.
    """


@dataclass(frozen=True)
class Padded:
    """A dimension whose size is ``factor`` times the size of an open dimension of the inputs.

    For example, reshaping ``[N, 4]`` to one dimension gives a dimension with factor 4.

    Attributes:
        symbol: index of the open dimension among the part's symbols.
        factor: this dimension's size, divided by the open dimension's size.
    """

    symbol: int
    factor: int = 1


Dim = int | Padded


def product(dims: Iterable[Dim]) -> Dim:
    """Return the product of dimensions.

    Raises:
        DependentRowsError: if more than one dimension is open.
    """
    dims = tuple(dims)
    numbers = prod(dim for dim in dims if isinstance(dim, int))
    padded = [dim for dim in dims if isinstance(dim, Padded)]
    if len(padded) > 1:
        raise DependentRowsError
    if not padded or numbers == 0:
        return numbers
    return Padded(padded[0].symbol, padded[0].factor * numbers)


def standing_in(dims: Iterable[Dim]) -> tuple[int, ...]:
    """Return ``dims`` with all sizes static, as if open dimensions had the size ``STAND_IN``.

    An open size becomes ``Padded.factor`` times ``STAND_IN``. The result is given to ONNX's shape
    inference, which does not support open sizes.
    """
    return tuple(d if isinstance(d, int) else STAND_IN * d.factor for d in dims)


@dataclass(frozen=True)
class PartValue:
    """Facts about a value of a part (a subgraph to compile): its sizes, type, content and origin.

    Attributes:
        shape: the value's sizes, some of which may be open.
        elem_type: ONNX's code of the element type.
        content: the value's elements, if the value is an integer or a list of integers that is
            constant or computed from shapes; else None.
        constant: the value's elements, if the value is constant; else None.
        sources: names of the part's inputs from which the elements are copied, with an empty name
            if some elements are copied from constants; None if elements are computed.
        direct: name of the part's input that has the same elements in the same order, up to a
            broadcast; empty for no such input.
    """

    shape: tuple[Dim, ...]
    elem_type: int
    content: tuple[Dim, ...] | None = None
    constant: Array | None = None
    sources: frozenset[str] | None = None
    direct: str = ""

    @staticmethod
    def of_constant(value: Array) -> PartValue:
        """Return the facts about a constant: its shape, element type and value."""
        kind = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
        content = None
        if value.dtype.kind in "iub" and value.ndim <= 1 and value.size <= _MOST_CONTENT:
            content = tuple(int(element) for element in value.reshape(-1))
        return PartValue(value.shape, kind, content, value, frozenset({""}))

    @property
    def is_padded(self) -> bool:
        """Whether the value has an open dimension, at the end of which padding would be added."""
        return any(isinstance(dim, Padded) for dim in self.shape)

    @property
    def is_sized(self) -> bool:
        """Whether an element of ``content`` depends on the size of an open dimension."""
        return any(isinstance(dim, Padded) for dim in self.content or ())

    @property
    def is_static(self) -> bool:
        """Whether neither the shape nor the elements in ``content`` depend on open dimensions."""
        return not self.is_padded and not self.is_sized

    def integers(self) -> list[int]:
        """Return the elements in ``content``, none of which may depend on an open dimension.

        Raises:
            DependentRowsError: if ``content`` is None, or an element is a size of an open
                dimension.
        """
        if self.content is None or self.is_sized:
            raise DependentRowsError
        return [dim for dim in self.content if isinstance(dim, int)]

    def elements(self) -> tuple[Dim, ...]:
        """Return the elements in ``content``: integers, or sizes of open dimensions.

        Raises:
            DependentRowsError: if ``content`` is None.
        """
        if self.content is None:
            raise DependentRowsError
        return self.content


@dataclass
class Demands:
    """Requirements of a part's nodes on the part's padded inputs.

    Attributes:
        leaders: union-find forest over the open dimensions' indices; the dimensions of a tree must
            have the same size.
        indices: names of inputs whose elements must not be negative.
        zeros: names of inputs whose padding must be 0.
        lasts: names of inputs whose elements are indices along a padded dimension. Their padding
            elements must be the last index of this dimension, which lies in the padding.
    """

    leaders: dict[int, int] = field(default_factory=dict[int, int])
    indices: set[str] = field(default_factory=set[str])
    zeros: set[str] = field(default_factory=set[str])
    lasts: set[str] = field(default_factory=set[str])

    def leader(self, symbol: int) -> int:
        """Return the root of ``symbol`` in the union-find forest.

        ``symbol`` is the index of an open dimension. All dimensions with the same root must have
        the same size.
        """
        while symbol in self.leaders:
            symbol = self.leaders[symbol]
        return symbol

    def unite(self, one: Dim, other: Dim) -> Dim:
        """Require two dimensions to have the same size; return a dimension of that size.

        Raises:
            DependentRowsError: if only one dimension is open, if both are open but have different
                values of ``Padded.factor``, or if static sizes differ.
        """
        if isinstance(one, int) or isinstance(other, int):
            if one != other:
                raise DependentRowsError
            return one
        if one.factor != other.factor:
            raise DependentRowsError
        first, second = self.leader(one.symbol), self.leader(other.symbol)
        if first != second:
            self.leaders[second] = first
        return Padded(first, one.factor)

    def broadcast(self, shapes: Sequence[tuple[Dim, ...]]) -> tuple[Dim, ...]:
        """Return the broadcast shape of ``shapes``, and require sizes that permit the broadcast.

        Open dimensions at the same position of several shapes must have the same size.

        Raises:
            DependentRowsError: if an open size would have to equal a static size.
        """
        rank = max(map(len, shapes), default=0)
        found: list[Dim] = [1] * rank
        for shape in shapes:
            for position, dim in enumerate(shape, rank - len(shape)):
                if found[position] == 1:
                    found[position] = dim
                elif dim != 1:
                    found[position] = self.unite(found[position], dim)
        return tuple(found)

    def read(self, data: PartValue, axis: int, indices: PartValue) -> None:
        """Require that padded ``indices`` stay in range along dimension ``axis`` of ``data``.

        Raises:
            DependentRowsError: if no requirement on inputs can keep the indices in range, for
                example because a node computes the indices.
        """
        dim = data.shape[axis]
        if not indices.is_padded and not isinstance(dim, Padded):
            return
        if indices.constant is not None:
            if isinstance(dim, Padded) and int(np.min(indices.constant, initial=0)) < 0:
                raise DependentRowsError
            return
        if indices.sources is None or dim == 0:
            raise DependentRowsError
        names = indices.sources - {""}
        if isinstance(dim, Padded):
            if "" in indices.sources:  # some are negative constants
                raise DependentRowsError
            self.indices |= names
        elif indices.is_padded:
            self.zeros |= names

    def write(self, dim: Dim, indices: PartValue) -> None:
        """Require that padding elements of ``indices`` write only to padding of the written tensor.

        ``dim`` is the dimension of this tensor that ``indices`` index.

        Raises:
            DependentRowsError: unless ``dim`` has the same size as an open dimension of the inputs
                (``Padded.factor`` is 1), and ``indices`` are the elements of an input.
        """
        if not isinstance(dim, Padded):
            raise DependentRowsError
        if dim.factor != 1 or not indices.direct:
            raise DependentRowsError
        self.indices.add(indices.direct)
        self.lasts.add(indices.direct)


Values = Mapping[str, PartValue]


def stand_in_content(value: PartValue) -> Array | None:
    """Return a value's elements, as if all open dimensions of the inputs had the size ``STAND_IN``.

    Return None if the elements are neither constant nor computed from shapes.
    """
    if value.constant is not None:
        return value.constant
    if value.content is None:
        return None
    dtype = onnx.helper.tensor_dtype_to_np_dtype(value.elem_type)
    return np.array(standing_in(value.content), dtype).reshape(standing_in(value.shape))
