"""Finds, checks and inlines the private functions that rKernels call."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from rammer_mlir.bindings import ir
from rammer_mlir.passes.base import OperationError
from rammer_mlir.passes.ir.entry import functions, symbol_name
from rammer_mlir.passes.ir.inlining import inline_call
from rammer_mlir.passes.ir.kernels import described_kernels
from rammer_mlir.passes.ir.traversal import operations_named

_ADVICE = "write an rtask.kernel with 'external' and an rtask.module with its code"


def called_functions(module: ir.Module, names: Iterable[str]) -> set[str]:
    """Return ``names`` and the names of all functions that the functions ``names`` call.

    Indirect calls, through other functions, count too.
    """
    return reached_functions({symbol_name(each): each for each in functions(module)}, names)


def reached_functions(known: Mapping[str, ir.OpView], names: Iterable[str]) -> set[str]:
    """Return ``names`` and the names of all functions that the functions ``names`` call.

    Indirect calls, through other functions, count too. ``known`` maps names to functions; a called
    function that is not in ``known`` is in the result, but the functions that it calls are not.
    """
    found: set[str] = set()
    pending = list(names)
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending.extend(_callees(known[name].operation) if name in known else ())
    return found


def inline_called_functions(
    module: ir.Module, kernels: Sequence[ir.Operation], *, keeps_declared: bool = False
) -> None:
    """Inline all calls in rKernels, and erase the inlined functions that are not called elsewhere.

    Args:
        module: the module that contains the functions.
        kernels: the functions of the rKernels.
        keeps_declared: whether to keep calls of functions without a body, which are linked later.

    Raises:
        OperationError: at a call of a recursive function, of a function with several blocks, or,
            unless ``keeps_declared``, of a function without a body.
    """
    known = {symbol_name(function): function for function in functions(module)}
    inlined: set[str] = set()
    for kernel in kernels:
        for call in list(_calls(kernel)):
            _inline(call, known, (_symbol(kernel),), inlined, keeps_declared)
    _erase_unused(module, inlined)


def check_called_functions(module: ir.Module, kernels: Iterable[ir.Operation]) -> None:
    """Check that all functions that rKernels call, directly or indirectly, have a body.

    Raises:
        OperationError: at a call of a declaration.
    """
    known = {symbol_name(function): function for function in functions(module)}
    pending = [(call, _callee(call)) for kernel in kernels for call in _calls(kernel)]
    seen: set[str] = set()
    while pending:
        call, name = pending.pop()
        if not known[name].operation.regions[0].blocks:
            raise _declared(call)
        if name not in seen:
            seen.add(name)
            pending.extend((each, _callee(each)) for each in _calls(known[name].operation))


def _inline(
    call: ir.Operation,
    known: Mapping[str, ir.OpView],
    callers: tuple[str, ...],
    inlined: set[str],
    keeps_declared: bool,
) -> None:
    name = _callee(call)
    blocks = known[name].operation.regions[0].blocks
    if name in callers:
        raise OperationError(
            call, f"expected a function that does not call itself, found @{name}: use a loop of scf"
        )
    if not blocks:
        if keeps_declared:
            return
        raise _declared(call)
    if len(blocks) > 1:
        raise OperationError(
            call, f"expected a function of one block, found @{name} with {len(blocks)}: use scf"
        )
    inlined.add(name)
    for op in inline_call(call, known[name]):
        for nested in [op] if op.name == "func.call" else list(_calls(op)):
            _inline(nested, known, (*callers, name), inlined, keeps_declared)


def _declared(call: ir.Operation) -> OperationError:
    return OperationError(
        call,
        f"expected a function with a body, found the declaration @{_callee(call)}: {_ADVICE}",
    )


def _erase_unused(module: ir.Module, candidates: Collection[str]) -> None:
    """Erase each function named in ``candidates`` that no remaining function or rKernel uses."""
    roots = [name for f in functions(module) if (name := symbol_name(f)) not in candidates]
    used = called_functions(module, [*roots, *described_kernels(module)])
    for function in list(functions(module)):
        if symbol_name(function) not in used:
            function.operation.erase()


def _calls(op: ir.Operation) -> Iterator[ir.Operation]:
    return operations_named(op, "func.call")


def _callees(op: ir.Operation) -> list[str]:
    return [_callee(call) for call in _calls(op)]


def _callee(call: ir.Operation) -> str:
    return ir.FlatSymbolRefAttr(call.attributes["callee"]).value


def _symbol(op: ir.Operation) -> str:
    return ir.StringAttr(op.attributes["sym_name"]).value
