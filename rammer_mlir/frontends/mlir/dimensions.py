"""Binds the dynamic dimensions of a function's arguments to sizes."""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.bindings import ir, stablehlo, tensor
from rammer_mlir.frontends.mlir.interface import input_positions
from rammer_mlir.passes.ir.function_type import update_function_type
from rammer_mlir.passes.manager import run_pipeline
from rammer_mlir.programs.dimensions import Shape

_REFINE = "builtin.module(stablehlo-refine-shapes)"


def bind_dimensions(module: ir.Module, function: ir.OpView, shapes: Sequence[Shape]) -> None:
    """Set static shapes of an entry function's inputs, in place.

    In a StableHLO module, StableHLO's own pass then makes all other shapes static. In other
    modules, the shapes of values computed from the inputs stay dynamic until legalization makes
    them static.

    Args:
        module: the module of the function.
        function: the entry function, the only public function of the module.
        shapes: the static shape of each input, in order.
    """
    block = function.operation.regions[0].blocks[0]
    is_open = False
    with ir.InsertionPoint.at_block_begin(block), function.operation.location:
        for number, shape in zip(input_positions(function), shapes, strict=True):
            argument = block.arguments[number]
            if not isinstance(argument.type, ir.RankedTensorType):
                continue  # scalars have no dimensions
            old = argument.type
            if old.has_static_shape:
                continue
            is_open = True
            argument.set_type(ir.RankedTensorType.get(shape, old.element_type, old.encoding))
            cast = tensor.CastOp(old, argument).result
            argument.replace_all_uses_except(cast, cast.owner.operation)
    if is_open:
        update_function_type(function.operation)
    if is_open and stablehlo is not None and _uses_stablehlo(module):
        run_pipeline(module, _REFINE)


def _uses_stablehlo(module: ir.Module) -> bool:
    found = False

    def visit(op: ir.Operation) -> ir.WalkResult:
        nonlocal found
        found = op.name.startswith("stablehlo.")
        return ir.WalkResult.INTERRUPT if found else ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found
