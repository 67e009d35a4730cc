"""`rtask-layout-regions`: passes values to regions, and returns results, in blocks of channels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.passes.base import Form, Pass
from rammer_mlir.passes.ir.entry import CODEGEN, entry_block, functions, symbol_name
from rammer_mlir.passes.ir.function_type import update_function_type
from rammer_mlir.passes.ir.packs import blocked_type, pack, unpack
from rammer_mlir.passes.regions.layouts import Exchange, layouts_of
from rammer_mlir.passes.regions.region import Layouts, region_of


@dataclass(frozen=True)
class LayoutRegions(Pass):
    """Exchange activations in channel blocks with regions whose code generator supports blocks.

    Without this pass, regions read and write the layouts of the model, and convert them internally.
    With this pass, the entry function packs each region's operands into blocks and unpacks its
    results. Between two regions, an unpack and a pack cancel; elsewhere, `rtask-block-channels`
    lets the compiler's rKernels use the blocks directly. The function of a region is cloned for
    each layout with which it is called.
    """

    name: ClassVar[str] = "rtask-layout-regions"
    takes: ClassVar[Form | None] = Form.TENSORS

    def run(self, module: ir.Module) -> None:
        """Ask the code generators for layouts; pack and unpack values of regions accordingly."""
        outlined = (f for f in functions(module) if CODEGEN in f.operation.attributes)
        regions = {symbol_name(function): function for function in outlined}
        layouts = {name: _layouts(module, function) for name, function in regions.items()}
        operations = list(entry_block(module).operations)
        calls = {
            op.operation: layouts[name]
            for op in operations
            if (name := _callee(op)) in layouts and layouts[name]
        }
        exchange = Exchange.of(operations, calls)
        chosen = {call: exchange.of_call(call) for call in calls}
        changed = _Changed(module)
        for call, layout in chosen.items():
            if layout:
                _exchange(call, layout, changed.function(regions[_callee(call.opview)], layout))
        changed.erase_unused()


def _layouts(module: ir.Module, function: ir.OpView) -> Layouts:
    codegen = ir.StringAttr(function.operation.attributes[CODEGEN]).value
    return layouts_of(function, codegen, region_of(module, function))


def _callee(op: ir.OpView) -> str:
    if op.operation.name != "func.call":
        return ""
    return ir.FlatSymbolRefAttr(op.operation.attributes["callee"]).value


def _exchange(call: ir.Operation, layout: Layouts, function: ir.OpView) -> None:
    """Let a region's call exchange blocks: pack its operands, unpack its results for their users.

    The call then calls ``function``, a clone of the region's function for blocks. ``layout`` maps
    the index of each operand or result that is stored in blocks to the dimension along which the
    blocks lie; other operands and results stay unchanged.
    """
    with ir.InsertionPoint(call), call.location:
        for number, dim in layout.inputs.items():
            call.operands[number] = pack(call.operands[number], dim)
    call.attributes["callee"] = ir.FlatSymbolRefAttr.get(symbol_name(function))
    for number, dim in layout.outputs.items():
        with ir.InsertionPoint.after(call), call.location:
            _store_in_blocks(call.results[number], dim)


def _store_in_blocks(value: ir.Value, dim: int) -> None:
    """Change the type of ``value`` to blocks of channels along the dimension ``dim``.

    The users of ``value`` then read a copy in the original layout, which an unpack makes.
    """
    kind = value.type
    value.set_type(blocked_type(kind, dim))
    plain = unpack(value, kind, dim)
    owner = plain.owner
    assert not isinstance(owner, ir.Block)
    value.replace_all_uses_except(plain, owner.operation)


class _Changed:
    """Clones of regions' functions that take and return blocks of channels, made on demand."""

    def __init__(self, module: ir.Module) -> None:
        self._module, self._symbols = module, ir.SymbolTable(module.operation)
        self._made: dict[tuple[str, str], ir.OpView] = {}
        self._replaced: dict[str, ir.OpView] = {}

    def function(self, function: ir.OpView, layout: Layouts) -> ir.OpView:
        """Return the clone of ``function`` with operands and results in the layouts ``layout``.

        The clone is memoized by the function's name and the layouts.
        """
        key = symbol_name(function), str(layout)
        if key not in self._made:
            copy = function.operation.clone(ip=ir.InsertionPoint(function))
            self._symbols.insert(copy)
            _change(copy.operation, layout)
            self._made[key] = copy
            self._replaced[key[0]] = function
        return self._made[key]

    def erase_unused(self) -> None:
        """Erase each original of a clone if the entry function no longer calls the original."""
        called = {_callee(op) for op in entry_block(self._module).operations}
        for name, function in self._replaced.items():
            if name not in called:
                function.operation.erase()


def _change(function: ir.Operation, layout: Layouts) -> None:
    """Store a function's arguments and results in blocks; convert them inside the function.

    The function unpacks arguments at its start and packs results at its end. ``layout`` has the
    dimension along which each argument or result is stored in blocks.
    """
    block = function.regions[0].blocks[0]
    *_, end = block.operations
    for number, dim in layout.inputs.items():
        with ir.InsertionPoint.at_block_begin(block), function.location:
            _store_in_blocks(block.arguments[number], dim)
    for number, dim in layout.outputs.items():
        with ir.InsertionPoint(end), function.location:
            end.operation.operands[number] = pack(end.operation.operands[number], dim)
    update_function_type(function)
