"""Updates a function's type after its arguments or results have changed."""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.bindings import ir


def update_function_type(
    function: ir.Operation, returned: Sequence[ir.Value] | None = None
) -> None:
    """Set a function's type to the types of its arguments and of the values that it returns.

    Args:
        function: a ``func.func`` with a body of one block.
        returned: the values that the function will return, if its block has no return operation
            yet; None to take the operands of the return operation.
    """
    block = function.regions[0].blocks[0]
    results = list(block.operations)[-1].operation.operands if returned is None else returned
    kind = ir.FunctionType.get(
        [argument.type for argument in block.arguments], [value.type for value in results]
    )
    function.attributes["function_type"] = ir.TypeAttr.get(kind)
