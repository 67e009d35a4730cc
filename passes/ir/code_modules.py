"""Emits, copies and erases a module's ``rtask.module`` operations, which hold foreign code."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict

from rammer_mlir.bindings import ir
from rammer_mlir.dialects.rtask.external import read_external
from rammer_mlir.dialects.rtask.module_op import ENGINE, NEEDS, OBJECTS, OPTIONS
from rammer_mlir.passes.ir.called_functions import called_functions
from rammer_mlir.passes.ir.entry import functions, is_private, symbol_name
from rammer_mlir.passes.ir.kernels import described_kernels
from rammer_mlir.programs.modules import Requirement


def code_modules(module: ir.Module) -> Iterator[ir.Operation]:
    """Yield the ``rtask.module`` operations of a module."""
    for op in module.body.operations:
        if op.operation.name == "rtask.module":
            yield op.operation


def emit_module(
    name: str,
    form: str,
    code: str | bytes,
    *,
    engine: str = "",
    needs: Sequence[Requirement] = (),
    objects: Sequence[bytes] = (),
    options: Mapping[str, str] | None = None,
) -> ir.Operation:
    """Emit an ``rtask.module`` with foreign code at the current insertion point, and return it.

    Args:
        name: the symbol name of the ``rtask.module``.
        form: the format of the code, such as ``c``, ``object`` or ``graph``.
        code: source, an object, a graph, or other bytes.
        engine: the engine that runs a graph or other bytes; an empty string for code that is
            linked.
        needs: packages that must be installed where the code runs.
        objects: relocatable objects that the code calls.
        options: values of the engine's options, by name.
    """
    strings = {"sym_name": name, "form": form, "code": code}
    if engine:
        strings[ENGINE] = engine
    attributes: dict[str, ir.Attribute] = {k: ir.StringAttr.get(v) for k, v in strings.items()}
    if needs:
        attributes[NEEDS] = ir.ArrayAttr.get([_need(need) for need in needs])
    if objects:
        attributes[OBJECTS] = ir.ArrayAttr.get([ir.StringAttr.get(each) for each in objects])
    if options:
        values = {name: ir.StringAttr.get(value) for name, value in options.items()}
        attributes[OPTIONS] = ir.DictAttr.get(values)
    return ir.Operation.create("rtask.module", attributes=attributes)


def _need(need: Requirement) -> ir.Attribute:
    found = {key: ir.StringAttr.get(value) for key, value in asdict(need).items() if value}
    return ir.DictAttr.get(found)


def objects_of(code: ir.Operation) -> tuple[bytes, ...]:
    """Return the bytes of the relocatable objects that the code of an ``rtask.module`` calls."""
    if OBJECTS not in code.attributes:
        return ()
    return tuple(ir.StringAttr(each).value_bytes for each in ir.ArrayAttr(code.attributes[OBJECTS]))


def adopt_module(code: ir.Operation, ip: ir.InsertionPoint) -> str:
    """Copy an ``rtask.module`` to the insertion point; return the symbol name of the copy.

    If the insertion point's block already has an ``rtask.module`` of equal content, nothing is
    copied, and the name of that ``rtask.module`` is returned. A copy gets a new, unused name.
    """
    there = ip.block.owner
    for op in ip.block.operations:
        if op.operation.name == "rtask.module" and _content(op.operation) == _content(code):
            return _name(op.operation)
    taken = ir.SymbolTable(there.operation)
    name, number = _name(code), 0
    while name in taken:
        name, number = f"{_name(code)}_{number}", number + 1
    code.clone(ip=ip).attributes["sym_name"] = ir.StringAttr.get(name)
    return name


def erase_unused_kernels(module: ir.Module, used: Collection[str]) -> None:
    """Erase all rKernels except ``used``, and all that only the erased rKernels need.

    Every private function that no rKernel in ``used`` calls, directly or indirectly, is erased; so
    is every ``rtask.module`` to which no remaining rKernel refers.
    """
    for name, description in described_kernels(module).items():
        if name not in used:
            description.operation.erase()
    called = called_functions(module, used)
    for function in list(functions(module)):
        if is_private(function) and symbol_name(function) not in called:
            function.operation.erase()
    erase_unused_modules(module)


def erase_unused_modules(module: ir.Module, also_used: Iterable[str] = ()) -> None:
    """Erase each ``rtask.module`` that no rKernel refers to and that is not in ``also_used``."""
    found = (read_external(op.operation) for op in described_kernels(module).values())
    used = {external.module for external in found if external is not None} | set(also_used)
    for code in list(code_modules(module)):
        if _name(code) not in used:
            code.erase()


def _name(code: ir.Operation) -> str:
    return ir.StringAttr(code.attributes["sym_name"]).value


def _content(code: ir.Operation) -> dict[str, ir.Attribute]:
    return {name: code.attributes[name] for name in code.attributes if name != "sym_name"}
