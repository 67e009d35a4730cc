"""The type of a function whose arguments or results have changed."""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.bindings import ir


def update_function_type(
    function: ir.Operation, returned: Sequence[ir.Value] | None = None
) -> None:
    """Give a function of one block the type that its arguments and results have now.

    Args:
        function: a ``func.func`` with a body.
        returned: what it will return; what its terminator returns, if None.
    """
    block = function.regions[0].blocks[0]
    results = list(block.operations)[-1].operation.operands if returned is None else returned
    kind = ir.FunctionType.get(
        [argument.type for argument in block.arguments], [value.type for value in results]
    )
    function.attributes["function_type"] = ir.TypeAttr.get(kind)
