"""The values of a region as buffers and intermediate results, in the views that operations read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rammer_mlir.codegens.inexpressible import NotExpressibleError
from rammer_mlir.codegens.primitives.views import View, dense
from rammer_mlir.passes.regions.region import Region, RegionOperation


@dataclass(frozen=True)
class Value:
    """A tensor in one view.

    Attributes:
        view: its sizes and strides.
        buffer: the number of the region's input or output that it is, inputs first; -1 for none.
        source: the number of the value that it is another view of, -1 for none.
    """

    view: View
    buffer: int = -1
    source: int = -1


@dataclass
class RegionValues:
    """Numbers values in the order in which operations read and write them.

    Attributes:
        num_inputs: of the region.
        results: numbers of what the region returns.
        renamed: numbers of results of reshapes, and of the values that they are views of.
    """

    num_inputs: int = 0
    results: Sequence[int] = ()
    renamed: Mapping[int, int] = field(default_factory=dict[int, int])
    values: list[Value] = field(default_factory=list[Value])
    _known: dict[tuple[int, View], int] = field(default_factory=dict[tuple[int, View], int])
    _computed: dict[int, int] = field(default_factory=dict[int, int])

    @staticmethod
    def of(region: Region) -> RegionValues:
        """Begin with a region none of whose operations is read yet."""
        renamed = {
            operation.outputs[0]: operation.inputs[0]
            for operation in region.operations
            if is_reshape(operation)
        }
        return RegionValues(len(region.inputs), region.results, renamed)

    def read(self, number: int, view: View) -> int:
        """Return the number of a value in a view: an input, or what an operation has computed."""
        number = self._root(number)
        if number in self._computed:
            return self._add(number, Value(view, source=self._computed[number]))
        return self._add(number, Value(view, number))

    def write(self, number: int, view: View) -> int:
        """Return the number of what an operation computes, in row-major order.

        Raises:
            NotExpressibleError: if the region returns it twice.
        """
        returned = [n for n, each in enumerate(self.results) if self._root(each) == number]
        if len(returned) > 1 or not view.is_dense:
            raise NotExpressibleError("a result that is returned twice")
        buffer = self.num_inputs + returned[0] if returned else -1
        self._computed[number] = self._add(number, Value(dense(view.dims), buffer))
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


def is_reshape(operation: RegionOperation) -> bool:
    """Whether an operation keeps all elements in their order."""
    return [reading.kind for reading in operation.readings] == ["reshape"]
