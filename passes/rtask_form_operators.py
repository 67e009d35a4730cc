"""`rtask-form-operators`: tensor operations become a data-flow graph of rOperators."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir, tensor
from rammer_mlir.errors import OptionError
from rammer_mlir.passes.base import Form, Pass, check_least
from rammer_mlir.passes.fusion.boundaries import ENOUGH_TASKS, Parallelism, Separate, UniqueInputs
from rammer_mlir.passes.fusion.cheapest import group_by_cost
from rammer_mlir.passes.fusion.gathered_views import fold_views_of_gathers
from rammer_mlir.passes.fusion.greedy import group_operations
from rammer_mlir.passes.fusion.grouping import Group, is_cloned
from rammer_mlir.passes.ir.block_order import sort_block
from rammer_mlir.passes.ir.cloning import ValueMap, clone_into
from rammer_mlir.passes.ir.entry import (
    CODEGEN,
    entry_block,
    entry_function,
    functions,
    is_private,
    symbol_name,
)
from rammer_mlir.passes.ir.outline import Outliner, clone_constants, create_operator
from rammer_mlir.passes.ir.reshapes import RESHAPES
from rammer_mlir.passes.ir.structured import Structured, captured_values, is_generic, plain_dim
from rammer_mlir.scheduling.devices.catalog import find_device

BOUNDARIES = ("none", "parallelism", "inputs", "cost")
"""The values of the option ``boundary``: rules for the end of an rOperator."""


@dataclass(frozen=True)
class FormOperators(Pass):
    """Group tensor operations into rOperators; equal computations share a function.

    Each call of a function with ``rtask.codegen``, which is a region for a foreign code generator,
    becomes an rOperator. The ``boundary`` selects the operations to fuse among those that can be
    fused:

    - ``none``: no operations.
    - ``parallelism``: operations are fused unless fusion reduces parallelism and leaves fewer than
      ``enough`` independent rTasks.
    - ``inputs``: operations are fused while an rOperator reads at most ``inputs`` different tensors
      (F_max of Dali; 0 for any count).
    - ``cost``: fusion minimizes the sum of all rOperators' predicted times on ``num-veus`` vEUs of
      the ``device``, a name or a file. With ``per-operator``, each rOperator is a separate launch;
      otherwise a barrier precedes each rOperator.
    """

    name: ClassVar[str] = "rtask-form-operators"
    takes: ClassVar[Form | None] = Form.TENSORS_ALONE

    boundary: str = "parallelism"
    enough: int = ENOUGH_TASKS
    inputs: int = 3
    device: str = "cpu"
    num_veus: int = 1
    per_operator: bool = False

    def check_options(self) -> None:
        """Raise an OptionError if ``boundary`` is unknown or another option is too small."""
        if self.boundary not in BOUNDARIES:
            raise OptionError(
                f"{self.name}: boundary: expected one of {', '.join(BOUNDARIES)}, found "
                f"'{self.boundary}'"
            )
        check_least(self, 1, "enough", "num_veus")
        check_least(self, 0, "inputs")

    def run(self, module: ir.Module) -> None:
        """Replace the tensor operations of the entry function by rOperators and their functions.

        Views and concatenations of tensors stay in the entry function.
        """
        main = entry_function(module)
        _fold_empty_reshapes(entry_block(module))
        _replace_region_calls(module)
        outliner = Outliner(module)
        for group in self._groups(entry_block(module)):
            _outline(group, outliner)
        sort_block(entry_block(module))
        _erase_dead(main)

    def _groups(self, block: ir.Block) -> list[Group]:
        if self.boundary == "none":
            return group_operations(block, Separate())
        if self.boundary == "parallelism":
            return group_operations(block, Parallelism(self.enough))
        fold_views_of_gathers(block)
        if self.boundary == "inputs":
            return group_operations(block, UniqueInputs(self.inputs))
        device = find_device(self.device).device(self.num_veus)
        return group_by_cost(block, device, launches=self.per_operator)


def _fold_empty_reshapes(block: ir.Block) -> None:
    """Replace each reshape of a ``tensor.empty`` by a ``tensor.empty`` of the new shape."""
    for op in list(block.operations):
        if op.operation.name not in RESHAPES:
            continue
        owner = op.operation.operands[0].owner
        if not isinstance(owner, ir.Block) and owner.operation.name == "tensor.empty":
            (result,) = op.operation.results
            kind = ir.RankedTensorType(result.type)
            with ir.InsertionPoint(op.operation), op.operation.location:
                fresh = tensor.EmptyOp(list(kind.shape), kind.element_type)
            result.replace_all_uses_with(fresh.result)
            op.operation.erase()


def _replace_region_calls(module: ir.Module) -> None:
    """Replace each call of a region's function by an rOperator."""
    regions = {
        symbol_name(function)
        for function in functions(module)
        if is_private(function) and CODEGEN in function.operation.attributes
    }
    for op in list(entry_block(module).operations) if regions else []:
        operation = op.operation
        if operation.name != "func.call":
            continue
        callee = ir.FlatSymbolRefAttr(operation.attributes["callee"]).value
        if callee in regions:
            types = [value.type for value in operation.results]
            ip = ir.InsertionPoint(operation)
            new = create_operator(callee, list(operation.operands), types, operation.location, ip)
            for old, fresh in zip(operation.results, new.results, strict=True):
                old.replace_all_uses_with(fresh)
            operation.erase()


def _outline(group: Group, outliner: Outliner) -> None:
    inputs, outputs = _interface(group)
    main = _main_operation(group)

    def body(arguments: Sequence[ir.Value]) -> list[ir.Value]:
        mapping: ValueMap = dict(zip(inputs, arguments, strict=True))
        ip = ir.InsertionPoint.current
        for op in group.operations:
            for value in [*op.operation.operands, *captured_values(op)]:
                clone_constants(value, mapping, ip)
            clone_into(op, mapping, ip)
        return [mapping[value] for value in outputs]

    kernel = outliner.function(_kind(group, main), [value.type for value in inputs], body)
    call = create_operator(
        kernel,
        inputs,
        [value.type for value in outputs],
        main.operation.location,
        ir.InsertionPoint(group.operations[-1].operation),
    )
    for old, new in zip(outputs, call.results, strict=True):
        old.replace_all_uses_with(new)
    for op in reversed(group.operations):
        op.operation.erase()


def _interface(group: Group) -> tuple[list[ir.Value], list[ir.Value]]:
    """Return the inputs of a group of fused operations, and those results that are read outside.

    Values that are cloned for each user, such as constants, are no inputs.
    """
    inside = {op.operation for op in group.operations}
    inputs: dict[ir.Value, None] = {}
    outputs: list[ir.Value] = []
    for op in group.operations:
        for value in [*op.operation.operands, *captured_values(op)]:
            owner = value.owner
            if isinstance(owner, ir.Block):
                inputs[value] = None
            elif owner.operation not in inside and not is_cloned(owner.opview):
                inputs[value] = None
        for result in op.operation.results:
            if any(_outside(use.owner, inside) for use in result.uses):
                outputs.append(result)
    return list(inputs), outputs


def _outside(user: ir.OpView, inside: set[ir.Operation]) -> bool:
    operation: ir.Operation | None = user.operation
    while operation is not None and operation not in inside:
        parent = operation.parent
        operation = None if parent is None else parent.operation
    return operation is None


def _main_operation(group: Group) -> ir.OpView:
    """Return the operation that gives a group's rOperator its name and location.

    A group is the operations that an rOperator fuses. Its main operation is the first contraction,
    or, without contractions, the last operation.
    """
    for op in group.operations:
        if is_generic(op) and Structured(op).is_contraction:
            return op
    return group.operations[-1]


def _kind(group: Group, op: ir.OpView) -> str:
    """Return the kind of a group's rOperator: ``conv``, ``matmul``, ``elementwise`` or ``reduce``.

    A group is the operations that an rOperator fuses; ``op`` is its main operation. If ``op`` is
    not a ``linalg.generic``, the kind is the operation's name without its dialect.
    """
    if not is_generic(op):
        return op.operation.name.rsplit(".", 1)[-1]
    structured = Structured(op)
    if structured.is_contraction:
        return "conv" if _has_window(structured) else "matmul"
    generics = [Structured(o) for o in group.operations if is_generic(o)]
    return "elementwise" if all(g.is_elementwise for g in generics) else "reduce"


def _has_window(op: Structured) -> bool:
    exprs: Iterable[ir.AffineExpr] = (expr for map_ in op.maps for expr in map_.results)
    return any(
        plain_dim(expr) is None and not isinstance(expr, ir.AffineConstantExpr) for expr in exprs
    )


def _erase_dead(main: ir.OpView) -> None:
    operations = list(main.operation.regions[0].blocks[0].operations)
    for op in reversed(operations[:-1]):
        if not any(True for result in op.operation.results for _ in result.uses):
            op.operation.erase()
