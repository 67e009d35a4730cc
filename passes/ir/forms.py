"""Checks that a module has the IR form that a pass requires, such as tensors or buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from rammer_mlir.bindings import ir
from rammer_mlir.passes.base import Form, OperationError
from rammer_mlir.passes.ir.entry import CODEGEN, functions, is_private, symbol_name
from rammer_mlir.passes.ir.kernels import described_kernels


def check_form(module: ir.Module, form: Form) -> None:
    """Check that a module's functions have the IR form that a pass requires.

    A form is, for example, ``static tensors in one block``. A module without functions passes every
    check.

    Raises:
        PassError: if a function or operation does not have this form; the message names the first
            such function or operation.
    """
    _CHECKS[form](module)


def _check_tensors(module: ir.Module) -> None:
    for function in _entries(module):
        _check_function(function, ir.RankedTensorType, "static tensors", takes_scalars=True)


def _check_tensors_alone(module: ir.Module) -> None:
    for function in _entries(module):
        _check_function(function, ir.RankedTensorType, "static tensors")


def _check_operators(module: ir.Module) -> None:
    described = next(iter(described_kernels(module).values()), None)
    if described is not None:
        raise OperationError(
            described, "expected rOperators on whole tensors, found rKernels: they are tiled"
        )
    for function in functions(module):
        if function.operation.regions[0].blocks:
            _check_function(function, ir.RankedTensorType, "static tensors")
    codes = {symbol_name(f) for f in functions(module) if CODEGEN in f.operation.attributes}
    for op in _entry_operations(module):
        if op.name == "func.call" and _symbol(op, "callee") not in codes:
            raise OperationError(
                op, "expected rOperators, found a call: run rtask-legalize, which inlines calls"
            )


def _check_tasks(module: ir.Module) -> None:
    _check_tensors_alone(module)
    _check_described(module)


def _check_buffers(module: ir.Module) -> None:
    for function in _entries(module):
        _check_function(function, ir.MemRefType, "static memrefs")
    _check_described(module)
    for op in _entry_operations(module):
        if op.name == "rtask.program":
            raise OperationError(op, "expected rOperators, found an rProgram: it is scheduled")


_CHECKS: Mapping[Form, Callable[[ir.Module], None]] = {
    Form.TENSORS: _check_tensors,
    Form.TENSORS_ALONE: _check_tensors_alone,
    Form.OPERATORS: _check_operators,
    Form.TASKS: _check_tasks,
    Form.BUFFERS: _check_buffers,
}


def _check_described(module: ir.Module) -> None:
    described = described_kernels(module)
    for op in _entry_operations(module):
        if op.name == "rtask.operator":
            for kernel in ir.ArrayAttr(op.attributes["kernels"]):
                name = ir.FlatSymbolRefAttr(kernel).value
                if name not in described:
                    raise OperationError(
                        op,
                        f"expected rKernels, found @{name} on whole tensors: run rtask-tile first",
                    )


def _check_function(
    function: ir.OpView, expected: type[ir.Type], described: str, *, takes_scalars: bool = False
) -> None:
    blocks = function.operation.regions[0].blocks
    if len(blocks) > 1:
        raise OperationError(
            function, f"expected a function of one block, found {len(blocks)}: use scf"
        )
    kind = ir.FunctionType(ir.TypeAttr(function.operation.attributes["function_type"]).value)
    for value in (*kind.inputs, *kind.results):
        if takes_scalars and not isinstance(value, ir.ShapedType):
            continue
        if not isinstance(value, expected) or not ir.ShapedType(value).has_static_shape:
            raise OperationError(
                function, f"expected {described}, found {value}: {_advice(value, expected)}"
            )


def _advice(found: ir.Type, expected: type[ir.Type]) -> str:
    if expected is ir.MemRefType:
        return "run rtask-bufferize first"
    if isinstance(found, ir.MemRefType):
        return "it has buffers already"
    if isinstance(found, ir.RankedTensorType):
        return "give open dimensions a size"
    return "run rtask-legalize first"


def _entries(module: ir.Module) -> Iterator[ir.OpView]:
    for function in functions(module):
        if not is_private(function) and function.operation.regions[0].blocks:
            yield function


def _entry_operations(module: ir.Module) -> Iterator[ir.Operation]:
    for function in _entries(module):
        for op in function.operation.regions[0].blocks[0].operations:
            yield op.operation


def _symbol(op: ir.Operation, key: str) -> str:
    return ir.FlatSymbolRefAttr(op.attributes[key]).value
