"""The values of a region as buffers and intermediate results, in the views that operations read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rammer_mlir.bindings import ir
from rammer_mlir.codegens.inexpressible import NotExpressibleError
from rammer_mlir.codegens.primitives.views import Dims, View, dense
from rammer_mlir.passes.ir.packs import BLOCK, PACK, UNPACK
from rammer_mlir.passes.regions.region import Region, RegionOperation

_IMAGES = (3, 4, 5)
"""Dimensions of images: a batch, channels, and one to three axes."""


@dataclass(frozen=True)
class Value:
    """A tensor in one view.

    Attributes:
        view: its sizes and strides.
        buffer: the number of the region's input or output that it is, inputs first; -1 for none.
        source: the number of the value that it is another view of, -1 for none.
        in_blocks: whether the buffer lies in blocks of 16 channels, of dimension 1.
    """

    view: View
    buffer: int = -1
    source: int = -1
    in_blocks: bool = False


@dataclass
class RegionValues:
    """Numbers values in the order in which operations read and write them.

    Attributes:
        num_inputs: of the region.
        results: numbers of what the region returns.
        shapes: of the inputs and outputs that lie in blocks of channels, by their buffers, as if
            they lay in row-major order.
        renamed: numbers of results of reshapes, packs and unpacks, and of what they are made of.
    """

    num_inputs: int = 0
    results: Sequence[int] = ()
    shapes: Mapping[int, Dims] = field(default_factory=dict[int, Dims])
    renamed: Mapping[int, int] = field(default_factory=dict[int, int])
    values: list[Value] = field(default_factory=list[Value])
    _known: dict[tuple[int, View], int] = field(default_factory=dict[tuple[int, View], int])
    _computed: dict[int, int] = field(default_factory=dict[int, int])

    @staticmethod
    def of(region: Region, in_blocks: Mapping[int, Dims]) -> RegionValues:
        """Begin with a region none of whose operations is read yet.

        Args:
            region: of any layouts.
            in_blocks: further inputs and outputs that are to lie in blocks, as ``shapes``.
        """
        renamed = {
            operation.outputs[0]: operation.inputs[0]
            for operation in region.operations
            if is_renamed(operation)
        }
        shapes = {**blocked_shapes(region), **in_blocks}
        return RegionValues(len(region.inputs), region.results, shapes, renamed)

    def read(self, number: int, view: View) -> int:
        """Return the number of a value in a view: an input, or what an operation has computed."""
        number = self._root(number)
        if number in self._computed:
            return self._add(number, Value(view, source=self._computed[number]))
        if number not in self.shapes:
            return self._add(number, Value(view, number))
        whole = dense(self.shapes[number])
        blocked = self._add(number, Value(whole, number, in_blocks=True))
        return blocked if view == whole else self._add(number, Value(view, source=blocked))

    def write(self, number: int, view: View) -> int:
        """Return the number of what an operation computes, in row-major order.

        Raises:
            NotExpressibleError: if the region returns it twice.
        """
        returned = [n for n, each in enumerate(self.results) if self._root(each) == number]
        if len(returned) > 1 or not view.is_dense:
            raise NotExpressibleError("a result that is returned twice")
        buffer = self.num_inputs + returned[0] if returned else -1
        in_blocks = buffer in self.shapes
        if in_blocks and self.shapes[buffer] != view.dims:
            raise NotExpressibleError("a result that is reshaped and lies in blocks")
        value = Value(dense(view.dims), buffer, in_blocks=in_blocks)
        self._computed[number] = self._add(number, value)
        return self._computed[number]

    @property
    def is_complete(self) -> bool:
        """Whether all that the region returns is computed."""
        return all(self._root(number) in self._computed for number in self.results)

    def _root(self, number: int) -> int:
        while number in self.renamed:
            number = self.renamed[number]
        return number

    def _add(self, number: int, value: Value) -> int:
        if 0 in value.view.dims or not value.view.dims:
            raise NotExpressibleError("a tensor without elements or dimensions")
        key = (number, value.view)
        if key not in self._known:
            self._known[key] = len(self.values)
            self.values.append(value)
        return self._known[key]


def is_renamed(operation: RegionOperation) -> bool:
    """Whether an operation only gives a value another shape or layout."""
    is_reshape = [reading.kind for reading in operation.readings] == ["reshape"]
    return is_reshape or operation.name in (PACK, UNPACK)


def blocked_shapes(region: Region) -> dict[int, Dims]:
    """Return the row-major shapes of a region's inputs and outputs that lie in blocks."""
    found: dict[int, Dims] = {}
    for operation in region.operations:
        if operation.name == UNPACK:
            buffer = operation.inputs[0]
        elif operation.name == PACK:
            buffer = len(region.inputs) + region.results.index(operation.outputs[0])
        else:
            continue
        batch, blocks, *points, block = ir.ShapedType(
            (*region.inputs, *region.outputs)[buffer]
        ).shape
        found[buffer] = (batch, blocks * block, *points)
    return found


def blockable(region: Region) -> dict[int, Dims]:
    """Return the shapes of inputs and outputs that are images and may lie in blocks, by buffers."""
    kinds = map(ir.RankedTensorType, (*region.inputs, *region.outputs))
    return {
        number: tuple(kind.shape)
        for number, kind in enumerate(kinds)
        if kind.rank in _IMAGES and isinstance(kind.element_type, ir.F32Type)
        and not kind.shape[1] % BLOCK
    }  # fmt: skip
