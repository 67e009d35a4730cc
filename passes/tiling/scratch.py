"""Adds scratch memory for external rKernels: an additional, unused result of their rOperators.

All candidate rKernels of an rOperator have the same signature. The compiler's own candidates
therefore get the result too, but do not access it. If the policy chooses such a candidate, the
result's buffer is removed from the candidate's arguments again, and no memory is planned for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rammer_mlir.bindings import func, ir
from rammer_mlir.dialects.rtask.accesses import read_accesses
from rammer_mlir.passes.ir.boxes_text import accesses_of
from rammer_mlir.passes.ir.kernels import described_kernels


@dataclass(frozen=True)
class Scratch:
    """Scratch memory of each rTask of an external rKernel.

    Attributes:
        kernel: the name of the rKernel's function.
        num_rtasks: the number of rTasks of the rKernel.
        num_bytes: the number of bytes of scratch memory per rTask.
    """

    kernel: str
    num_rtasks: int
    num_bytes: int

    @property
    def type(self) -> ir.Type:
        """The type of the buffer for the scratch memory of all rTasks."""
        size = self.num_rtasks * self.num_bytes
        return ir.RankedTensorType.get([size], ir.IntegerType.get_signless(8))


def add_scratch(
    module: ir.Module, scratch: Scratch, kernels: Iterable[str], operators: Iterable[ir.OpView]
) -> None:
    """Add a result for scratch memory to rOperators and to all of their candidate rKernels.

    Args:
        module: a module at the `tasks` stage.
        scratch: the scratch memory that one of the candidates needs.
        kernels: the names of all candidates.
        operators: the rOperators that have these candidates.
    """
    table = ir.SymbolTable(module.operation)
    for name in kernels:
        _add_result(table[name].opview, scratch.type)
    description = described_kernels(module)[scratch.kernel].operation
    writes = list(ir.ArrayAttr(description.attributes["writes"]))
    kind = ir.FunctionType(
        ir.TypeAttr(table[scratch.kernel].operation.attributes["function_type"]).value
    )
    box = [(f"d0 * {scratch.num_bytes}", scratch.num_bytes)]
    # The last argument's number, which does not count the rTask's id.
    added = accesses_of([scratch.type], {0: box}, len(kind.inputs) - 2)
    description.attributes["writes"] = ir.ArrayAttr.get([*writes, *added])
    for op in operators:
        _replace(op.operation, scratch.type)


def drop_scratch(module: ir.Module, kernels: Iterable[str]) -> set[str]:
    """Remove the scratch argument of rKernels that do not use it; return their names.

    The caller has to drop the last operand of the calls of these rKernels. Only rKernels with a
    body are changed.

    Args:
        module: a module at the `buffers` stage.
        kernels: the names of the rKernels to examine.
    """
    table, described = ir.SymbolTable(module.operation), described_kernels(module)
    found = {name for name in kernels if _has_untouched(table[name], described[name].operation)}
    for name in found:
        _drop_last(table[name].operation)
    return found


def _has_untouched(function: ir.Operation | ir.OpView, description: ir.Operation) -> bool:
    """Whether an rKernel has a scratch argument that it does not access.

    A scratch argument is the last argument, and a memref of i8 with one dimension. It is not
    accessed if neither the body of ``function`` nor a box of ``description``, the function's
    ``rtask.kernel``, refers to it. The result is False for a function without a body.
    """
    blocks = list(function.operation.regions[0].blocks)
    last = blocks[0].arguments[-1] if blocks else None
    if last is None or not isinstance(last.type, ir.MemRefType) or list(last.uses):
        return False
    kind = ir.MemRefType(last.type)
    is_bytes = kind.rank == 1 and kind.element_type == ir.IntegerType.get_signless(8)
    keys = [key for key in ("reads", "writes", "updates") if key in description.attributes]
    accesses = (access for key in keys for access in read_accesses(description, key))
    touched = {access.argument + 1 for access in accesses}
    return is_bytes and last.arg_number not in touched


def _drop_last(function: ir.Operation) -> None:
    block = function.regions[0].blocks[0]
    last = len(block.arguments) - 1
    block.erase_argument(last)
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    kind = ir.FunctionType.get(list(kind.inputs)[:last], list(kind.results))
    function.attributes["function_type"] = ir.TypeAttr.get(kind)


def _add_result(function: ir.OpView, added: ir.Type) -> None:
    """Give an rKernel's function an argument of type ``added`` that is also its last result."""
    attributes = function.operation.attributes
    kind = ir.FunctionType(ir.TypeAttr(attributes["function_type"]).value)
    kind = ir.FunctionType.get([*kind.inputs, added], [*kind.results, added])
    attributes["function_type"] = ir.TypeAttr.get(kind)
    if not len(function.operation.regions[0].blocks):
        return
    block = function.operation.regions[0].blocks[0]
    destination = block.add_argument(added, ir.Location.unknown())
    *_, end = block.operations
    with ir.InsertionPoint(end.operation):
        func.ReturnOp([*end.operation.operands, destination])
    end.operation.erase()


def _replace(op: ir.Operation, added: ir.Type) -> None:
    """Replace an rOperator by a copy with an additional result of type ``added``."""
    attributes = {name: op.attributes[name] for name in op.attributes}
    with ir.InsertionPoint(op), op.location:
        made = ir.Operation.create(
            op.name, [*(r.type for r in op.results), added], list(op.operands), attributes
        )
    for old, new in zip(op.results, made.results, strict=False):
        old.replace_all_uses_with(new)
    op.erase()
