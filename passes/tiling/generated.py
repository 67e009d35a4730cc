"""Adds a region's rKernel, made by a code generator, as a candidate of the region's rOperator."""

from __future__ import annotations

from math import prod

from rammer_mlir.bindings import func, ir
from rammer_mlir.dialects.rtask.external import EXTERNAL, external_of
from rammer_mlir.passes.base import OperationError
from rammer_mlir.passes.ir.entry import CODEGEN, symbol_name
from rammer_mlir.passes.ir.kernels import describe_kernel
from rammer_mlir.passes.ir.one_line import one_line
from rammer_mlir.passes.tiling.kernel import Computation
from rammer_mlir.passes.tiling.scratch import Scratch

GENERATED, SCRATCH = "rtask.generated", "scratch"
"""The attribute of a region's function that describes the generated rKernel, and one of its keys.

The attribute is a dictionary; the entry ``scratch`` is the bytes of scratch memory per rTask.
"""


def generated_alignment(function: ir.OpView) -> int | None:
    """Return the alignment in bytes that a region's generated rKernel requires.

    Return None if there is no generated rKernel.
    """
    found = generated_entries(function)
    if not found:
        return None
    return external_of(function.operation, ir.DictAttr(found[EXTERNAL])).alignment


def generated_entries(function: ir.OpView) -> dict[str, ir.Attribute]:
    """Return the entries of the attribute ``GENERATED`` of a region's function, by key.

    Return an empty dictionary if the function has no generated rKernel. The keys are:

    - ``reads``, ``writes``: the boxes that an rTask accesses
    - ``num_rtasks``: count of rTasks
    - ``operations``, ``bytes``: arithmetic operations and accessed bytes per rTask
    - ``external``: the reference to the foreign code
    - ``scratch``: bytes of scratch memory per rTask; only if the rKernel needs scratch memory
    """
    if GENERATED not in function.operation.attributes:
        return {}
    return {e.name: e.attr for e in ir.DictAttr(function.operation.attributes[GENERATED])}


def generated_module(function: ir.OpView) -> str | None:
    """Return the name of the ``rtask.module`` with a region's generated code.

    Return None if there is no generated rKernel.
    """
    found = generated_entries(function)
    if not found:
        return None
    return ir.FlatSymbolRefAttr(ir.DictAttr(found[EXTERNAL])["module"]).value


def generated_operations(function: ir.OpView) -> int:
    """Return the arithmetic operations of a region's generated rKernel, summed over its rTasks.

    Return 0 if there is no generated rKernel.
    """
    found = generated_entries(function)
    numbers = (ir.IntegerAttr(found[key]).value for key in ("operations", "num_rtasks"))
    return prod(numbers) if found else 0


def generated_kernel(function: ir.OpView) -> str | None:
    """Emit a declaration and an ``rtask.kernel`` for a region's generated rKernel; return its name.

    Both are inserted before the region's function. Return None if there is no generated rKernel.

    Raises:
        OperationError: if the code generator's numbers or boxes are invalid.
    """
    found = generated_entries(function)
    if not found:
        return None
    computation = Computation(function)
    name = f"{symbol_name(function)}_x0"
    inputs = [argument.type for argument in computation.block.arguments]
    outputs = [value.type for value in computation.returned]

    def number(key: str) -> int:
        return ir.IntegerAttr(found[key]).value

    accesses = {key: ir.ArrayAttr(found[key]) for key in ("reads", "writes")}
    with ir.InsertionPoint(function), function.operation.location:
        kind = ir.FunctionType.get([ir.IndexType.get(), *inputs, *outputs], outputs)
        func.FuncOp(name, kind, visibility="private")
        description = describe_kernel(
            name, number("num_rtasks"), accesses, number("operations"), number("bytes"),
            **{EXTERNAL: found["external"]},
        )  # fmt: skip
    try:
        description.verify()
    except ir.MLIRError as error:
        codegen = ir.StringAttr(function.operation.attributes[CODEGEN]).value
        raise OperationError(
            function,
            f"code generator '{codegen}', region '{symbol_name(function)}': expected a valid "
            f"rKernel, found {one_line(error)}; mend it, or leave the code generator out",
        ) from error
    return name


def scratch_of(function: ir.OpView) -> Scratch | None:
    """Return the scratch memory of a region's generated rKernel.

    Return None if there is no generated rKernel, or if it needs no scratch memory.
    """
    found = generated_entries(function)
    if SCRATCH not in found:
        return None
    sizes = (ir.IntegerAttr(found[key]).value for key in ("num_rtasks", SCRATCH))
    return Scratch(f"{symbol_name(function)}_x0", *sizes)
