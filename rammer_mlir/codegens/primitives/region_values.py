"""Collects the views (shapes and strides) of a region's tensors that its primitives access."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rammer_mlir.bindings import ir
from rammer_mlir.codegens.inexpressible import NotExpressibleError
from rammer_mlir.codegens.primitives.views import Dims, View, dense
from rammer_mlir.passes.ir.packs import BLOCK, PACK, UNPACK
from rammer_mlir.passes.regions.region import Region, RegionOperation

_IMAGES = (3, 4, 5)
"""Numbers of dimensions of images: batch, channels, and one to three spatial axes."""


@dataclass(frozen=True)
class Value:
    """A view of a tensor.

    Attributes:
        view: sizes and strides.
        buffer: index of the region's input or output, inputs first; -1 for an intermediate result,
            and for a view of another value.
        source: index of the value that this value is another view of; -1 if there is none.
        in_blocks: whether the buffer is stored in blocks of 16 channels along dimension 1.
    """

    view: View
    buffer: int = -1
    source: int = -1
    in_blocks: bool = False


@dataclass
class RegionValues:
    """Collects the views of a region's tensors as primitives read and write them.

    Tensors have indices in the region; buffers are the inputs, then the outputs.

    Attributes:
        num_inputs: number of the region's inputs.
        results: tensor indices of the values that the region returns.
        shapes: row-major shapes of the inputs and outputs in blocked layouts, by buffer index.
        renamed: maps the result of each reshape, pack and unpack to its operand, by tensor indices,
            because no primitive computes such a result.
        values: the views, in the order of their first access.
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
        """Return a region's ``RegionValues`` before any operation is translated: without views.

        Args:
            region: the region, whose inputs and outputs may have blocked layouts.
            in_blocks: inputs and outputs that are treated as blocked although ``region`` stores
                them row-major: row-major shapes by buffer index.
        """
        renamed = {
            operation.outputs[0]: operation.inputs[0]
            for operation in region.operations
            if is_renamed(operation)
        }
        shapes = {**blocked_shapes(region), **in_blocks}
        return RegionValues(len(region.inputs), region.results, shapes, renamed)

    def read(self, number: int, view: View) -> int:
        """Return the index in ``values`` of a view of the region's tensor with index ``number``.

        The tensor is an input of the region or has been computed. The view is added if it is new.
        """
        number = self._root(number)
        if number in self._computed:
            return self._add(number, Value(view, source=self._computed[number]))
        if number not in self.shapes:
            return self._add(number, Value(view, number))
        whole = dense(self.shapes[number])
        blocked = self._add(number, Value(whole, number, in_blocks=True))
        return blocked if view == whole else self._add(number, Value(view, source=blocked))

    def write(self, number: int, view: View) -> int:
        """Return the index in ``values`` of the view to which an operation writes its result.

        ``number`` is the index of the result in the region; ``view`` has the sizes of the result.

        Raises:
            NotExpressibleError: if the view is not in row-major order, or the region returns the
                tensor twice or in an unsupported layout.
        """
        returned = [n for n, each in enumerate(self.results) if self._root(each) == number]
        if len(returned) > 1 or not view.is_dense:
            raise NotExpressibleError("a result that is returned twice or is not row-major")
        buffer = self.num_inputs + returned[0] if returned else -1
        in_blocks = buffer in self.shapes
        if in_blocks and self.shapes[buffer] != view.dims:
            raise NotExpressibleError("a result that is reshaped and lies in blocks")
        value = Value(dense(view.dims), buffer, in_blocks=in_blocks)
        self._computed[number] = self._add(number, value)
        return self._computed[number]

    @property
    def is_complete(self) -> bool:
        """Whether primitives compute all results of the region."""
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
    """Whether an operation only changes a tensor's shape or layout: reshape, pack or unpack."""
    is_reshape = [reading.kind for reading in operation.readings] == ["reshape"]
    return is_reshape or operation.name in (PACK, UNPACK)


def blocked_shapes(region: Region) -> dict[int, Dims]:
    """Return the row-major shapes of the inputs and outputs of a region that have blocked layouts.

    The keys are buffer indices: the inputs, then the outputs.
    """
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
    """Return the shapes of the inputs and outputs that may be stored in blocks of 16 channels.

    Such a tensor is an f32 image whose number of channels is a multiple of 16. The keys are buffer
    indices: the inputs, then the outputs.
    """
    kinds = map(ir.RankedTensorType, (*region.inputs, *region.outputs))
    return {
        number: tuple(kind.shape)
        for number, kind in enumerate(kinds)
        if kind.rank in _IMAGES and isinstance(kind.element_type, ir.F32Type)
        and not kind.shape[1] % BLOCK
    }  # fmt: skip
