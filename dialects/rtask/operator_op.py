"""Defines ``rtask.operator``, an rOperator."""

from rammer_mlir.bindings import ir
from rammer_mlir.dialects.rtask.diagnostics import Broken, integer, module_of, symbols
from rammer_mlir.dialects.rtask.effects import BufferEffects
from rammer_mlir.dialects.rtask.functions import check_types, find_function, is_kernel, signature
from rammer_mlir.dialects.rtask.mixed_types import MixedTypesOp, verified_with_segments

OPERATOR_ID = "operator_id"


class OperatorOp(MixedTypesOp, name="operator", traits=[BufferEffects]):
    """An rOperator: a set of independent, equal rTasks (RAMMER section 3.1).

    An rOperator on tensors has operands and results. Its ``kernels`` name the function that
    computes the whole tensors or, after tiling, the candidate rKernels. It has no memory effects
    until the pass ``rtask-insert-copies`` has run.

    An rOperator on memrefs has no results; it writes into its last operands. Its attribute
    ``operator_id`` is a number; each ``rtask.run`` of its rTasks has the same ``operator_id``. Its
    memory effects are reads and writes of its operands.
    """

    kernels: ir.ArrayAttr

    @staticmethod
    def verify_invariants(op: ir.OpView) -> bool:
        """Whether the values are all tensors or all memrefs, and every rKernel accepts their types.

        The values are the operands and results. A broken rule becomes a diagnostic.
        """
        return verified_with_segments(op.operation, _check)


def _check(op: ir.Operation) -> None:
    operands = [value.type for value in op.operands]
    results = [value.type for value in op.results]
    _check_form(op, operands, results)
    table = ir.SymbolTable(module_of(op))
    for name in symbols(op, "kernels"):
        function = find_function(op, table, name)
        inputs, returned = signature(function)
        if is_kernel(function):
            check_types(op, [*operands, *results], inputs[1:], name, "operand or result")
        else:
            check_types(op, operands, inputs, name)
        check_types(op, results, returned, name, "result")


def _check_form(op: ir.Operation, operands: list[ir.Type], results: list[ir.Type]) -> None:
    on_buffers = any(isinstance(kind, ir.MemRefType) for kind in operands)
    wanted = ir.MemRefType if on_buffers else ir.RankedTensorType
    for kind in [*operands, *results]:
        if not isinstance(kind, wanted):
            what = "memref" if on_buffers else "tensor"
            raise Broken(op, f"a {what}", kind, "an rOperator is on tensors or on memrefs")
    if results and on_buffers:
        raise Broken(op, "no results", len(results), "an rOperator on memrefs writes operands")
    if on_buffers:
        integer(op, OPERATOR_ID, at_least=0, rule="ids count from 0")
    elif OPERATOR_ID in op.attributes:
        got = op.attributes[OPERATOR_ID]
        raise Broken(op, "no operator_id", got, "only rOperators on memrefs are numbered")
