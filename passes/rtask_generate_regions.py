"""`rtask-generate-regions`: code generators make code of their regions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.dialects.rtask.external import External
from rammer_mlir.dialects.rtask.module_op import FORMS, LINKED
from rammer_mlir.passes.base import OperationError, Pass
from rammer_mlir.passes.ir.boxes_text import accesses_of
from rammer_mlir.passes.ir.code_modules import adopt_module, emit_module
from rammer_mlir.passes.ir.entry import CODEGEN, entry_block, functions, symbol_name
from rammer_mlir.passes.ir.structured import element_bytes
from rammer_mlir.passes.regions.codegen import CODEGENS, ask
from rammer_mlir.passes.regions.region import Region, RegionCode, region_of
from rammer_mlir.passes.tiling.generated import GENERATED
from rammer_mlir.scheduling.memory import aligned


@dataclass(frozen=True)
class GenerateRegions(Pass):
    """Ask each region's code generator for an external rKernel that computes the region.

    A code generator without a function ``generate``, or that returns None, leaves the region to the
    host. The code lies in an ``rtask.module``; ``rtask.generated`` on the region's function is what
    `rtask-tile` makes a candidate of, beside the host's own rKernels.
    """

    name: ClassVar[str] = "rtask-generate-regions"

    def run(self, module: ir.Module) -> None:
        """Give the functions of regions their code."""
        for function in list(functions(module)):
            if CODEGEN not in function.operation.attributes:
                continue
            name = ir.StringAttr(function.operation.attributes[CODEGEN]).value
            codegen = CODEGENS.get(name)
            generate = getattr(codegen, "generate", None)
            if generate is None:
                continue
            region = region_of(module, function)
            code = ask(codegen, "generate", partial(generate, region))
            if code is not None:
                checked = _checked(function, name, code)
                each = _for_each_call(module, function) if checked.holds_weights else [function]
                for own in each:
                    _attach(own, region, checked)


def _for_each_call(module: ir.Module, function: ir.OpView) -> list[ir.OpView]:
    """Give each call of a function one of its own."""
    name, table = symbol_name(function), ir.SymbolTable(module.operation)
    found: list[ir.OpView] = []
    for op in entry_block(module).operations:
        callee = op.operation.attributes["callee"] if op.operation.name == "func.call" else None
        if callee is None or ir.FlatSymbolRefAttr(callee).value != name:
            continue
        own = (
            function if not found else function.operation.clone(ir.InsertionPoint(function)).opview
        )
        if found:
            own_name = table.insert(own.operation)
            op.operation.attributes["callee"] = ir.FlatSymbolRefAttr.get(own_name.value)
        found.append(own)
    return found


def _checked(function: ir.OpView, codegen: str, code: object) -> RegionCode:
    if not isinstance(code, RegionCode) or code.form not in FORMS:
        found = code.form if isinstance(code, RegionCode) else type(code).__name__
        raise OperationError(
            function,
            f"code generator '{codegen}': expected a RegionCode of form {', '.join(FORMS)} or "
            f"None, found {found}; mend it, or leave it out",
        )
    if bool(code.engine) == (code.form in LINKED):
        expected = "no engine" if code.form in LINKED else "the name of an engine"
        raise OperationError(
            function,
            f"code generator '{codegen}': expected {expected} for the form {code.form}, found "
            f"'{code.engine}'; mend it, or leave it out",
        )
    if code.scratch_bytes < 0:
        raise OperationError(
            function,
            f"code generator '{codegen}': expected scratch of 0 or more bytes, found "
            f"{code.scratch_bytes}; mend it, or leave it out",
        )
    return code


def _attach(function: ir.OpView, region: Region, code: RegionCode) -> None:
    holder = ir.Module.create()
    i64 = ir.IntegerType.get_signless(64)
    with ir.InsertionPoint(holder.body):
        name = f"{region.name}_code"
        made = emit_module(name, code.form, code.code, code.engine, code.needs)
    name = adopt_module(made, ir.InsertionPoint(function))
    has_state = code.has_state or code.form not in LINKED
    num_bytes = sum(map(_bytes, (*region.inputs, *region.outputs)))
    numbers = {
        "num_rtasks": code.num_rtasks,
        "operations": 2 * region.macs // code.num_rtasks,
        "bytes": num_bytes // code.num_rtasks,
        **({"scratch": aligned(code.scratch_bytes)} if code.scratch_bytes else {}),
    }
    function.operation.attributes[GENERATED] = ir.DictAttr.get(
        {
            "external": External(name, code.symbol, has_state).as_attribute(),
            "reads": accesses_of(region.inputs, code.reads, 0),
            "writes": accesses_of(region.outputs, code.writes, len(region.inputs)),
            **{key: ir.IntegerAttr.get(i64, value) for key, value in numbers.items()},
        }
    )


def _bytes(kind: ir.Type) -> int:
    return prod(ir.RankedTensorType(kind).shape) * element_bytes(kind)
