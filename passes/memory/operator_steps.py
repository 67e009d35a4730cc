"""Converts the rOperators of an entry function to steps of the recomputation search.

A step consists of the buffers that an rOperator will read and write after bufferization, and its
cost. The owner of a buffer is an SSA value, or the index of the output that holds the tensor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from rammer_mlir.bindings import ir
from rammer_mlir.dialects.rtask.external import read_external
from rammer_mlir.passes.base import OperationError
from rammer_mlir.passes.fusion.grouping import OPERATOR
from rammer_mlir.passes.fusion.placement import Placement, Storage, place
from rammer_mlir.passes.ir.constant_pad import find_constant_pad
from rammer_mlir.passes.ir.structured import element_bytes, shape_of
from rammer_mlir.scheduling.memory import aligned
from rammer_mlir.scheduling.recomputation.operator_sequence import Step, Steps, Value

Root = ir.Value | int
"""The owner of a tensor's buffer: a value, or the index of the output that holds the tensor."""


@dataclass(frozen=True)
class OperatorSteps:
    """The rOperators of a block in their order, and the buffers between them.

    The owner of a buffer is an SSA value, or the index of an output.

    Attributes:
        operators: the rOperator of each step.
        roots: the owners of the buffers; an owner's position is the buffer's index in ``steps``.
        steps: the buffers that each rOperator reads and writes, and its cost: scalar operations
            plus bytes moved.
        placement: the buffer and the layout of each tensor.
        padded: maps the owner of each buffer that is placed into a padded buffer to the owner of
            the padded buffer.
    """

    operators: tuple[ir.OpView, ...]
    roots: tuple[Root, ...]
    steps: Steps
    placement: Placement
    padded: Mapping[Root, Root]

    def root(self, value: ir.Value) -> Root:
        """Return the owner of a tensor's buffer: an SSA value, or the index of an output."""
        return _root(self.placement, self.padded, value)


def read_steps(block: ir.Block, kernels: Mapping[str, ir.OpView] | None = None) -> OperatorSteps:
    """Return the rOperators of an entry block, and the buffers that bufferization will give them.

    Args:
        block: an entry block after `rtask-form-operators`, before bufferization.
        kernels: descriptions of the rKernels by name, for the rOperators' costs; None to count
            bytes only.

    Raises:
        OperationError: if the first rKernel of an rOperator is not in ``kernels``.
    """
    placement = place(block)
    padded = _padded(block, placement)
    operators = tuple(op for op in block.operations if op.operation.name == OPERATOR)
    numbers: dict[Root, int] = {}
    values: list[Value] = []

    def number(value: ir.Value) -> int:
        root = _root(placement, padded, value)
        if root not in numbers:
            numbers[root] = len(numbers)
            values.append(_value(root, value))
        return numbers[root]

    steps = tuple(
        Step(
            reads=tuple(dict.fromkeys(map(number, op.operation.operands))),
            writes=tuple(map(number, op.operation.results)),
            cost=_bytes(op) if kernels is None else _cost(op, kernels),
            is_repeatable=_is_repeatable(op, placement, padded, kernels or {}),
        )
        for op in operators
    )
    return OperatorSteps(operators, tuple(numbers), Steps(steps, tuple(values)), placement, padded)


def _padded(block: ir.Block, placement: Placement) -> dict[Root, Root]:
    """Return the buffers that `rtask-decompose-pad` places into the middle of padded buffers.

    The keys are the buffers of tensors that a ``tensor.pad`` pads, the values the buffers of the
    padded tensors. ``placement`` contains the buffer of each tensor.
    """
    found: dict[Root, Root] = {}
    for op in block.operations:
        pad = find_constant_pad(op)
        if pad is not None:
            root = _storage(placement, pad.source).root
            if not isinstance(root, int) and not isinstance(root.owner, ir.Block):
                found.setdefault(root, op.operation.results[0])
    return found


def _root(placement: Placement, padded: Mapping[Root, Root], value: ir.Value) -> Root:
    root = _storage(placement, value).root
    while root in padded:
        root = padded[root]
    return root


def _storage(placement: Placement, value: ir.Value) -> Storage:
    """Return the buffer of a tensor, and the tensor's layout in the buffer.

    A tensor for which ``placement`` has no buffer will be copied to a separate, dense buffer.
    """
    return placement.storage.get(value, Storage.own(value))


def _value(root: Root, value: ir.Value) -> Value:
    if isinstance(root, int):
        return Value(tensor_bytes(value), is_counted=False)
    return Value(aligned(tensor_bytes(root)), is_counted=not isinstance(root.owner, ir.Block))


def tensor_bytes(value: ir.Value) -> int:
    """Return the size of a tensor's elements in bytes."""
    return prod(shape_of(value)) * element_bytes(value.type)


def kernel_names(op: ir.OpView) -> list[str]:
    """Return the names of an rOperator's alternative functions, from its attribute ``kernels``."""
    kernels = ir.ArrayAttr(op.operation.attributes["kernels"])
    return [ir.FlatSymbolRefAttr(reference).value for reference in kernels]


def _bytes(op: ir.OpView) -> int:
    return sum(map(tensor_bytes, (*op.operation.operands, *op.operation.results)))


def _cost(op: ir.OpView, kernels: Mapping[str, ir.OpView]) -> int:
    first, *_ = kernel_names(op)
    if first not in kernels:
        raise OperationError(
            op, f"expected rKernels, found @{first} on whole tensors: run rtask-tile first"
        )
    attributes = kernels[first].operation.attributes
    rtasks, operations = (
        ir.IntegerAttr(attributes[key]).value for key in ("num_rtasks", "operations")
    )
    return rtasks * operations + _bytes(op)


def _is_repeatable(
    op: ir.OpView,
    placement: Placement,
    padded: Mapping[Root, Root],
    kernels: Mapping[str, ir.OpView],
) -> bool:
    """Whether an rOperator can be executed again, with equal results in separate buffers.

    Each of its results must own its buffer, or be in an output of the function. Foreign code, and
    rKernels that update an operand, cannot be repeated.

    Args:
        op: the rOperator.
        placement: the buffer and the layout of each tensor.
        padded: maps buffers to the padded buffers that will contain them.
        kernels: descriptions of the rKernels by name.
    """
    own = all(
        isinstance(root := _root(placement, padded, value), int) or root == value
        for value in op.operation.results
    )
    described = [kernels[name] for name in kernel_names(op) if name in kernels]
    return own and not any(
        read_external(kernel.operation) is not None or "updates" in kernel.operation.attributes
        for kernel in described
    )
