"""Outlines the computations of rOperators into functions on whole tensors, shared if equal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rammer_mlir.bindings import func, ir
from rammer_mlir.passes.ir.cloning import ValueMap, clone_into
from rammer_mlir.passes.ir.entry import entry_function, functions, symbol_name
from rammer_mlir.passes.ir.function_type import update_function_type
from rammer_mlir.passes.ir.structured import captured_values

Body = Callable[[Sequence[ir.Value]], Sequence[ir.Value]]
"""A function that emits a computation at the current insertion point: arguments in, results out."""


class Outliner:
    """Creates private functions before the entry function; equal functions are created once."""

    def __init__(self, module: ir.Module) -> None:
        self._main = entry_function(module)
        self._known: dict[str, str] = {}
        self._taken = {symbol_name(function) for function in functions(module)}
        self._next: dict[str, int] = {}

    def function(
        self,
        kind: str,
        inputs: Sequence[ir.Type],
        body: Body,
        attributes: Mapping[str, ir.Attribute] | None = None,
        location: ir.Location | None = None,
    ) -> str:
        """Return the name of a private function; create it unless an equal function exists.

        Functions are equal if their types, bodies and attributes are; locations do not matter.

        Args:
            kind: the prefix of the name of a new function.
            inputs: the arguments' types.
            body: emits the operations of the function from its arguments, and returns the results.
            attributes: the attributes of the function, by name.
            location: the location of a new function; unknown if None.
        """
        function = self._build(inputs, body)
        if location is not None:
            function.operation.location = location
        for name, value in (attributes or {}).items():
            function.operation.attributes[name] = value
        # New functions share a temporary name, so that equal functions have equal texts.
        text = function.operation.get_asm(enable_debug_info=False, use_local_scope=True)
        known = self._known.get(text)
        if known is not None:
            function.operation.erase()
            return known
        name = self._fresh(kind)
        function.operation.attributes["sym_name"] = ir.StringAttr.get(name)
        self._known[text] = name
        return name

    def _fresh(self, kind: str) -> str:
        while True:
            number = self._next.get(kind, 0)
            self._next[kind] = number + 1
            name = f"{kind}_{number}"
            if name not in self._taken:
                self._taken.add(name)
                return name

    def _build(self, inputs: Sequence[ir.Type], body: Body) -> ir.OpView:
        with ir.InsertionPoint(self._main), ir.Location.unknown():
            function = func.FuncOp("kernel", ir.FunctionType.get(list(inputs), []))
            block = function.add_entry_block()
            with ir.InsertionPoint(block):
                results = list(body(list(block.arguments)))
                func.ReturnOp(results)
        update_function_type(function.operation)
        function.operation.attributes["sym_visibility"] = ir.StringAttr.get("private")
        return function


def create_operator(
    kernel: str,
    inputs: Sequence[ir.Value],
    results: Sequence[ir.Type],
    location: ir.Location,
    ip: ir.InsertionPoint,
) -> ir.Operation:
    """Create an ``rtask.operator`` with the function ``kernel`` as its only candidate; return it.

    ``inputs`` are the operands and ``results`` the result types of the ``rtask.operator``.
    """
    return ir.Operation.create(
        "rtask.operator",
        results=list(results),
        operands=list(inputs),
        attributes={"kernels": ir.ArrayAttr.get([ir.FlatSymbolRefAttr.get(kernel)])},
        loc=location,
        ip=ip,
    )


def clone_constants(value: ir.Value, mapping: ValueMap, ip: ir.InsertionPoint) -> None:
    """Clone at ``ip`` all operations that compute ``value`` from constants.

    ``mapping`` maps old values to new ones. The results of the clones are added to ``mapping``;
    values in ``mapping`` are not cloned again.
    """
    if value in mapping or isinstance(value.owner, ir.Block):
        return
    owner = value.owner.opview
    for operand in [*owner.operation.operands, *captured_values(owner)]:
        clone_constants(operand, mapping, ip)
    clone_into(owner, mapping, ip)
