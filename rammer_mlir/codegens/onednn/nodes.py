"""Regions as tables of primitives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import cast

from rammer_mlir.codegens.onednn.chains import (
    ACTIVATIONS,
    CONVOLUTIONS,
    PRODUCTS,
    Chain,
    chain_of,
    is_plain,
    weight_view,
)
from rammer_mlir.codegens.onednn.table import (
    BINARY,
    CONVOLUTION,
    ELTWISE,
    MATMUL,
    MOST_DIMS,
    POOLING,
    SOFTMAX,
    Dims,
    Node,
    Table,
    Value,
    Windows,
    dense,
)
from rammer_mlir.passes.regions.reading import Operand, Reading
from rammer_mlir.passes.regions.region import Region, RegionOperation

BINARIES = {"add": 131056, "mul": 131057}

_MAX, _AVERAGE, _INNER_AVERAGE = 511, 767, 1023
"""Numbers of pools: an average of all elements of windows, or of those inside of the image."""

_SOFTMAX = 196608


class UnknownError(Exception):
    """Something that oneDNN is not to compute."""


def table_of(region: Region) -> Table | None:
    """Return the table of a region, None if some of it is not for oneDNN."""
    kinds = {str(kind) for kind in (*region.inputs, *region.outputs)}
    if not all(kind.endswith("xf32>") for kind in kinds):
        return None
    builder = _Builder(region)
    try:
        nodes = tuple(builder.node(operation) for operation in region.operations)
    except UnknownError:
        return None
    num_buffers = len(region.inputs) + len(region.outputs)
    return Table(tuple(builder.values), nodes, num_buffers)


@dataclass
class _Builder:
    """Numbers the values of a region's primitives."""

    region: Region
    values: list[Value] = field(default_factory=list[Value])
    _numbers: dict[tuple[int, Value], int] = field(default_factory=dict[tuple[int, Value], int])

    def node(self, operation: RegionOperation) -> Node:
        """Return the primitive of an operation."""
        readings = tuple(each for each in operation.readings if each.kind != "fill")
        operation = replace(operation, readings=readings)
        kind = readings[0].kind if readings else ""
        if kind in (*CONVOLUTIONS, *PRODUCTS):
            return self._weighted(operation)
        make = _SIMPLE.get(kind)
        if make is None or len(operation.outputs) != 1:
            raise UnknownError
        return make(self, operation)

    def _input(self, operation: RegionOperation, operand: Operand) -> int:
        return self._view(operation, operand, operand.shape, dense(operand.shape))

    def _view(self, operation: RegionOperation, operand: Operand, dims: Dims, strides: Dims) -> int:
        """Return the number of a value, as one reader sees it."""
        number = operation.values.get(operand.value)
        if number is None:
            raise UnknownError  # a constant that is written in the code
        is_input = number < len(self.region.inputs)
        buffer = number if is_input else self._result(number)
        return self._add(Value(dims, strides, buffer, is_input), number)

    def _output(self, operation: RegionOperation) -> int:
        (number,) = operation.outputs
        shape = operation.readings[-1].output.shape
        return self._add(Value(shape, dense(shape), self._result(number)), number)

    def _result(self, number: int) -> int:
        """Return the buffer of a value that is returned, -1 for others."""
        results = self.region.results
        if results.count(number) > 1:
            raise UnknownError
        return len(self.region.inputs) + results.index(number) if number in results else -1

    def _add(self, value: Value, number: int) -> int:
        key = (number, value)
        if not 1 <= len(value.dims) <= MOST_DIMS or 0 in value.dims:
            raise UnknownError
        if key not in self._numbers:
            known = [other for other, _ in self._numbers if other == number]
            if known and not value.is_input:
                raise UnknownError  # computed in one layout, read in another one
            self._numbers[key] = len(self.values)
            self.values.append(value)
        return self._numbers[key]

    def _weighted(self, operation: RegionOperation) -> Node:
        chain = chain_of(operation.readings)
        if chain is None or len(operation.outputs) != 1:
            raise UnknownError
        main = chain.main
        src, weights = self._operands(operation, main)
        is_product = main.kind in PRODUCTS
        return Node(
            MATMUL if is_product else CONVOLUTION,
            src,
            weights=weights,
            is_packed=not operation.name.endswith(".product"),
            bias=self._bias(operation, chain),
            sum=-1 if chain.sum is None else self._input(operation, chain.sum),
            posts=chain.posts,
            dst=self._output(operation),
            windows=Windows() if is_product else windows_of(main),
        )

    def _operands(self, operation: RegionOperation, main: Reading) -> tuple[int, int]:
        left, right = main.inputs
        if main.kind not in PRODUCTS:
            view = weight_view(main)
            assert view is not None
            return self._input(operation, left), self._view(operation, right, *view)
        transposed = (bool(main.attributes[f"transpose_{side}"]) for side in "ab")
        first, second = (
            self._view(operation, operand, *_matrix(operand, is_transposed))
            for operand, is_transposed in zip((left, right), transposed, strict=True)
        )
        return first, second

    def _bias(self, operation: RegionOperation, chain: Chain) -> int:
        if chain.bias is None:
            return -1
        rank = chain.main.output.rank
        channels = rank - 1 if chain.main.kind in PRODUCTS else 1
        size = chain.main.output.shape[channels]
        dims = (*(1,) * (rank - 1), size) if chain.main.kind in PRODUCTS else (size,)
        return self._view(operation, chain.bias, dims, dense(dims))

    def element_wise(self, operation: RegionOperation) -> Node:
        """Return a function of elements."""
        (reading,) = operation.readings
        if not is_plain(reading):
            raise UnknownError
        src = self._input(operation, reading.inputs[0])
        function = ACTIVATIONS[reading.kind](reading)
        return Node(ELTWISE, src, self._output(operation), function=function)

    def binary(self, operation: RegionOperation) -> Node:
        """Return a function of two tensors of one shape."""
        (reading,) = operation.readings
        if not is_plain(reading) or len(reading.inputs) != 2:
            raise UnknownError
        src, other = (self._input(operation, operand) for operand in reading.inputs)
        algorithm = BINARIES[reading.kind]
        return Node(BINARY, src, self._output(operation), other, algorithm)

    def softmax(self, operation: RegionOperation) -> Node:
        """Return softmax along one dimension."""
        (reading,) = operation.readings
        axes = cast("Dims", reading.attributes["axes"])
        src = self._input(operation, reading.inputs[0])
        if len(axes) != 1:
            raise UnknownError
        return Node(SOFTMAX, src, self._output(operation), algorithm=_SOFTMAX, axis=axes[0])

    def pool(self, operation: RegionOperation) -> Node:
        """Return a pool; an average may be a sum with a division behind it."""
        reading = operation.readings[0]
        average = _AVERAGE if reading.attributes.get("count_include_pad") else _INNER_AVERAGE
        algorithm = _MAX if reading.kind == "max_pool" else average
        if str(reading.attributes["layout"]) not in ("NCW", "NCHW", "NCDHW"):
            raise UnknownError
        src, dst = self._input(operation, reading.inputs[0]), self._output(operation)
        return Node(POOLING, src, dst, algorithm=algorithm, windows=windows_of(reading))


_SIMPLE: dict[str, Callable[[_Builder, RegionOperation], Node]] = {
    **dict.fromkeys(ACTIVATIONS, _Builder.element_wise),
    **dict.fromkeys(BINARIES, _Builder.binary),
    "softmax": _Builder.softmax,
    **dict.fromkeys(("max_pool", "average_pool", "sum_pool"), _Builder.pool),
}


def _matrix(operand: Operand, is_transposed: bool) -> tuple[Dims, Dims]:
    """Return sizes and strides of a stack of matrices, whose last dimensions may be exchanged."""
    dims, strides = operand.shape, dense(operand.shape)
    if not is_transposed:
        return dims, strides
    return (*dims[:-2], dims[-1], dims[-2]), (*strides[:-2], strides[-1], strides[-2])


def windows_of(reading: Reading) -> Windows:
    """Return the windows of a convolution or pool."""
    kernel, strides, dilations, pads = (
        cast("Dims", reading.attributes[name])
        for name in ("kernel", "strides", "dilations", "pads")
    )
    rank = len(kernel)
    return Windows(strides, tuple(d - 1 for d in dilations), pads[:rank], pads[rank:], kernel)
