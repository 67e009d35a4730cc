"""Builds the scheduler's task graph from IR, with the boxes of memory that rTasks access."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rammer_mlir.bindings import ir
from rammer_mlir.dialects import rtask
from rammer_mlir.dialects.rtask.accesses import read_accesses
from rammer_mlir.dialects.rtask.external import read_external
from rammer_mlir.dialects.rtask.functions import signature
from rammer_mlir.errors import PassError
from rammer_mlir.passes.base import OperationError
from rammer_mlir.passes.ir.constants import CONSTANT, argument_attributes
from rammer_mlir.passes.ir.entry import entry_function, functions, symbol_name
from rammer_mlir.passes.ir.kernels import described_kernels, matrix_element
from rammer_mlir.passes.ir.layout import row_major_strides
from rammer_mlir.passes.ir.structured import element_bytes, shape_of
from rammer_mlir.scheduling.graph import (
    Access,
    Boxes,
    Buffer,
    BufferKind,
    MeasuredSeconds,
    RKernel,
    ROperator,
    TaskGraph,
    View,
)
from rammer_mlir.scheduling.reuse import with_reuse

_VIEWS = frozenset(
    f"memref.{name}"
    for name in ("reinterpret_cast", "subview", "cast", "collapse_shape", "expand_shape")
)


@dataclass
class GraphBuilder:
    """The builder of a module's task graph; operators must be added in topological order.

    Attributes:
        module: the module with the rKernels and their ``rtask.kernel`` descriptions.
        buffers: the buffers of the graph, without duplicates.
        roots: for each of ``buffers``, the memref that is the whole buffer: a function argument or
            the result of an allocation.
        operators: the operators added until now.
    """

    module: ir.Module
    buffers: list[Buffer] = field(default_factory=list[Buffer])
    roots: list[ir.Value] = field(default_factory=list[ir.Value])
    operators: list[ROperator] = field(default_factory=list[ROperator])

    def __post_init__(self) -> None:
        """Index the module's rKernels by name, and read the entry function's arguments."""
        self._main = entry_function(self.module)
        self._descriptions = described_kernels(self.module)
        self._functions = {symbol_name(f): f for f in functions(self.module)}
        self._kernels: dict[str, RKernel] = {}
        self._number: dict[ir.Value, int] = {}
        self._views: dict[ir.Value, View] = {}
        self._attributes = argument_attributes(self._main)
        self._arguments = list(self._main.operation.regions[0].blocks[0].arguments)

    def add_operator(self, name: str, kernels: Sequence[str], operands: Sequence[ir.Value]) -> None:
        """Append an rOperator to the graph.

        Args:
            name: the rOperator's name in messages and timelines.
            kernels: the function names of the candidate rKernels.
            operands: the memrefs that are passed to the rKernel.
        """
        candidates = tuple(self.kernel(kernel) for kernel in kernels)
        views = tuple(self.view(operand) for operand in operands)
        self.operators.append(ROperator(name=name, kernels=candidates, operands=views))

    def add_outputs(self) -> None:
        """Add the buffers of the program's outputs that no operator of the graph accesses."""
        for argument, attributes in zip(self._arguments, self._attributes, strict=True):
            if "rtask.output" in attributes:
                self.view(argument)

    def graph(self) -> TaskGraph:
        """Return the task graph of the operators and buffers that have been added."""
        return with_reuse(TaskGraph(tuple(self.buffers), tuple(self.operators)))

    def kernel(self, name: str) -> RKernel:
        """Return the rKernel that the module describes under ``name``.

        Equal names give the same object.

        Raises:
            PassError: if the module does not describe an rKernel of this name.
        """
        if name not in self._kernels:
            if name not in self._descriptions or name not in self._functions:
                raise PassError(
                    f"rKernel '@{name}' has no rtask.kernel description or no function: "
                    "expected both in the module"
                )
            self._kernels[name] = _rkernel(self._descriptions[name], self._functions[name])
        return self._kernels[name]

    def view(self, value: ir.Value) -> View:
        """Return the buffer of a memref, by its index in the graph, and the memref's offset in it.

        The offset is in elements. If the graph does not have the buffer yet, the buffer is added.
        """
        if value not in self._views:
            root = root_of(value)
            if root not in self._number:
                self._number[root] = len(self.buffers)
                self.buffers.append(self._buffer(root))
                self.roots.append(root)
            offset = ir.MemRefType(value.type).get_strides_and_offset()[1]
            start = ir.MemRefType(root.type).get_strides_and_offset()[1]
            self._views[value] = View(buffer=self._number[root], offset=offset - start)
        return self._views[value]

    def _buffer(self, root: ir.Value) -> Buffer:
        kind, name = self._kind(root)
        return Buffer(
            name=name,
            num_elements=int(np.prod(shape_of(root), dtype=np.int64)),
            element_bytes=element_bytes(root.type),
            kind=kind,
        )

    def _kind(self, root: ir.Value) -> tuple[BufferKind, str]:
        if not isinstance(root.owner, ir.Block):
            return "intermediate", f"buffer {len(self.buffers)}"
        attributes = self._attributes[ir.BlockArgument(root).arg_number]
        if CONSTANT in attributes:
            return "constant", str(attributes[CONSTANT])
        name = str(attributes.get("rtask.name", f"argument {ir.BlockArgument(root).arg_number}"))
        if "rtask.inout" in attributes:
            return "inout", name
        return ("output" if "rtask.output" in attributes else "input"), name


def root_of(value: ir.Value) -> ir.Value:
    """Return the memref from which a chain of views that ends at ``value`` starts.

    It is a function argument, or the result of an allocation.
    """
    while not isinstance(value.owner, ir.Block) and value.owner.operation.name in _VIEWS:
        value = value.owner.operation.operands[0]
    return value


def graph_of_operators(module: ir.Module) -> GraphBuilder:
    """Return a builder that has all rOperators of a module at the `buffers` stage.

    Raises:
        OperationError: if the entry function has operations on tensors.
    """
    builder = GraphBuilder(module)
    main = entry_function(module)
    _check_buffers(main)
    for op in main.operation.regions[0].blocks[0].operations:
        if op.operation.name == "rtask.operator":
            names = [
                ir.FlatSymbolRefAttr(reference).value
                for reference in ir.ArrayAttr(op.operation.attributes["kernels"])
            ]
            builder.add_operator(
                operator_name(op.operation.location, names[0]), names, list(op.operation.operands)
            )
    return builder


def _check_buffers(main: ir.OpView) -> None:
    """Check that the entry function has no operations on tensors, which a task graph would omit.

    Raises:
        OperationError: at the first operation on tensors.
    """
    for op in main.operation.regions[0].blocks[0].operations:
        values = (*op.operation.operands, *op.operation.results)
        if any(isinstance(value.type, ir.RankedTensorType) for value in values):
            raise OperationError(
                op,
                "expected rtask.operators on memrefs, found tensors: run rtask-form-operators, "
                "rtask-tile and rtask-bufferize first",
            )


def operator_name(location: ir.Location, kernel: str) -> str:
    """Return the operator's name in a location; ``kernel`` if the location has no name."""
    return location_name(location) or kernel


def location_name(location: ir.Location) -> str:
    """Return the first name in a location; empty if the location has no name."""
    if isinstance(location, ir.NameLoc):
        return location.name_str
    if isinstance(location, ir.FusedLoc):
        return next(filter(None, map(location_name, location.locations)), "")
    return ""


def _rkernel(description: ir.OpView, function: ir.OpView) -> RKernel:
    op = description.operation
    num_rtasks = ir.IntegerAttr(op.attributes["num_rtasks"]).value
    (_, *arguments), _ = signature(function.operation)

    def accesses(key: str) -> tuple[Access, ...]:
        return tuple(
            _access(access, arguments[access.argument], num_rtasks)
            for access in read_accesses(op, key)
        )

    def integer(key: str) -> int:
        return ir.IntegerAttr(op.attributes[key]).value if key in op.attributes else 0

    external = read_external(op)
    return RKernel(
        name=symbol_name(function),
        num_rtasks=num_rtasks,
        reads=accesses("reads"),
        writes=accesses("writes"),
        updates=accesses("updates") if "updates" in op.attributes else (),
        flops_per_rtask=integer("operations"),
        bytes_per_rtask=integer("bytes"),
        threads=integer("threads"),
        shared_memory=integer("shared_memory"),
        barriers=integer("barriers"),
        measured=_measured(op),
        module="" if external is None else external.module,
        is_exclusive=external is not None and external.is_exclusive,
        matrix_element=matrix_element(op),
    )


def _measured(description: ir.Operation) -> MeasuredSeconds | None:
    if "seconds" not in description.attributes:
        return None
    return MeasuredSeconds(*ir.DenseF64ArrayAttr(description.attributes["seconds"]))


def _access(access: rtask.Access, kind: ir.Type, num_rtasks: int) -> Access:
    shape = list(ir.MemRefType(kind).shape)
    strides, _ = ir.MemRefType(kind).get_strides_and_offset()
    starts, ends = access.boxes(num_rtasks, shape)
    boxes = Boxes(
        offsets=starts @ np.array(strides, dtype=np.int64),
        sizes=ends - starts,
        strides=_box_strides(strides, shape),
    )
    return Access(argument=access.argument, boxes=boxes)


def _box_strides(strides: Sequence[int], shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a memref, with a row-major stride for each dimension of size 1.

    The stride of such a dimension has no effect; with the replacement, boxes of the same elements
    have equal strides.
    """
    dense = row_major_strides(shape)
    return tuple(d if size == 1 else s for s, d, size in zip(strides, dense, shape, strict=True))
