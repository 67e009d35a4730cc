"""Checks rules of runs and barriers that concern the whole rProgram or the module's rKernels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from rammer_mlir.bindings import ir
from rammer_mlir.dialects.rtask.diagnostics import Broken, attribute, module_of, symbol
from rammer_mlir.dialects.rtask.functions import check_types, find_function, signature

Items = Sequence[Sequence[ir.Operation]]
"""The runs and barriers of each vEU of an rProgram, in order."""


def check_barriers(items: Items) -> None:
    """Check that every wait is for an existing rTask of another vEU of the rProgram.

    ``items`` contains, for each vEU, its ``rtask.run`` and ``rtask.barrier`` operations in order.

    Raises:
        Broken: at the first invalid barrier.
    """
    lengths = [sum(_count(op) for op in veu if op.name == "rtask.run") for veu in items]
    for number, veu in enumerate(items):
        for op in veu:
            if op.name == "rtask.barrier":
                _check_barrier(op, number, lengths)


def _count(run: ir.Operation) -> int:
    return ir.IntegerAttr(run.attributes["count"]).value


def _check_barrier(op: ir.Operation, own: int, lengths: list[int]) -> None:
    flat = list(attribute(op, "waits", ir.DenseI64ArrayAttr))
    for veu, order in zip(flat[::2], flat[1::2], strict=True):
        if not 0 <= veu < len(lengths):
            raise Broken(
                op,
                f"a wait for a vEU in 0..{len(lengths) - 1}",
                veu,
                "waits are within the program",
            )
        if veu == own:
            raise Broken(
                op,
                f"a wait for another vEU than {own}",
                veu,
                "the rTasks of one vEU run in order anyway",
            )
        if not 0 <= order < lengths[veu]:
            raise Broken(
                op,
                f"a wait for an order < {lengths[veu]} of vEU {veu}",
                order,
                "orders count the vEU's rTasks from 0",
            )


@dataclass(frozen=True)
class _Kernel:
    num_rtasks: int
    arguments: list[ir.Type]


def check_runs(program: ir.Operation, items: Items) -> None:
    """Check the rKernel, the rTask ids and the operand types of every ``rtask.run`` of an rProgram.

    ``items`` contains, for each vEU of ``program``, its ``rtask.run`` and ``rtask.barrier``
    operations in order.

    Raises:
        Broken: at the first invalid ``rtask.run``.
    """
    described = _descriptions(module_of(program))
    table = ir.SymbolTable(module_of(program))
    kernels: dict[str, _Kernel] = {}
    fitting: set[tuple[str, tuple[ir.Type, ...]]] = set()
    for op in _runs(items):
        name = symbol(op, "kernel")
        if name not in kernels:
            kernels[name] = _look_up(op, name, described, table)
        kernel = kernels[name]
        first, count = (ir.IntegerAttr(op.attributes[key]).value for key in ("first", "count"))
        if first + count > kernel.num_rtasks:
            raise Broken(
                op,
                f"first + count <= {kernel.num_rtasks}",
                first + count,
                f"@{name} has {kernel.num_rtasks} rTasks",
            )
        types = tuple(value.type for value in op.operands)
        if (name, types) not in fitting:
            check_types(op, types, kernel.arguments, name)
            fitting.add((name, types))


def _runs(items: Items) -> Iterable[ir.Operation]:
    return (op for op in chain.from_iterable(items) if op.name == "rtask.run")


def _descriptions(module: ir.Operation) -> dict[str, ir.Operation]:
    found: dict[str, ir.Operation] = {}
    for child in module.regions[0].blocks[0].operations:
        op = child.operation
        if op.name == "rtask.kernel":
            name = symbol(op, "function")
            if name in found:
                raise Broken(
                    op, f"one rtask.kernel for @{name}", "a second", "a function is one rKernel"
                )
            found[name] = op
    return found


def _look_up(
    op: ir.Operation, name: str, described: dict[str, ir.Operation], table: ir.SymbolTable
) -> _Kernel:
    function = find_function(op, table, name)
    if name not in described:
        raise Broken(op, f"an rtask.kernel for @{name}", "none", "runs are of described rKernels")
    num_rtasks = ir.IntegerAttr(described[name].attributes["num_rtasks"]).value
    inputs, _ = signature(function)
    return _Kernel(num_rtasks, inputs[1:])
