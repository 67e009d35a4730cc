"""Propagates static shapes to the results of concatenations and functions."""

from __future__ import annotations

from rammer_mlir.bindings import ir, tensor
from rammer_mlir.passes.ir.function_type import update_function_type
from rammer_mlir.passes.ir.traversal import operations_named, replace


def before_casts(value: ir.Value) -> ir.Value:
    """Return the source of a chain of ``tensor.cast`` that ends at ``value``.

    Return ``value`` itself if it is not the result of a cast.
    """
    owner = value.owner
    while not isinstance(owner, ir.Block) and owner.name == "tensor.cast":
        value = owner.operands[0]
        owner = value.owner
    return value


def take_static_operands(op: ir.Operation) -> None:
    """Replace each operand that is a cast from a static to a dynamic shape by the static tensor."""
    for number, value in enumerate(list(op.operands)):
        source = before_casts(value)
        if isinstance(source.type, ir.RankedTensorType) and source.type.has_static_shape:
            op.operands[number] = source


def return_static_shapes(function: ir.OpView) -> None:
    """Make a function return tensors of static shape instead of their casts to dynamic shapes."""
    block = function.operation.regions[0].blocks[0]
    last = list(block.operations)[-1].operation
    take_static_operands(last)
    update_function_type(function.operation)


def join_static_shapes(module: ir.Module) -> None:
    """Give each ``tensor.concat`` of static operands a static result, cast to its old type."""
    for op in list(operations_named(module.operation, "tensor.concat")):
        kind = ir.RankedTensorType(op.results[0].type)
        parts = [before_casts(value) for value in op.operands]
        kinds = [ir.RankedTensorType(value.type) for value in parts]
        if kind.has_static_shape or not all(each.has_static_shape for each in kinds):
            continue
        dim = ir.IntegerAttr(op.attributes["dim"]).value
        shape = list(kinds[0].shape)
        shape[dim] = sum(each.shape[dim] for each in kinds)
        joined = ir.RankedTensorType.get(shape, kind.element_type)
        with ir.InsertionPoint(op), op.location:
            replace(op, [tensor.CastOp(kind, tensor.ConcatOp(joined, dim, parts)).result])
