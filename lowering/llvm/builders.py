"""Builds operations of the LLVM dialect at the current insertion point; integers are i64."""

from __future__ import annotations

from collections.abc import Collection

from rammer_mlir.bindings import ir, llvm

_DYNAMIC = -(2**31)
"""Marker of a dynamic index among the indices of ``llvm.getelementptr``."""

_LARGEST_CONSTANT = 2**31 - 1
"""Largest absolute value of a constant index of ``llvm.getelementptr``, which has 32 bits."""

_HIDDEN = 1
"""LLVM's constant for hidden visibility."""

Number = ir.Value | int
"""A value, or an int that is emitted as a constant."""


def i64() -> ir.Type:
    """Return the i64 type, the default type of integers in this file."""
    return ir.IntegerType.get_signless(64)


def i32() -> ir.Type:
    """Return the i32 type, the type of words in a CPU's task table."""
    return ir.IntegerType.get_signless(32)


def i1() -> ir.Type:
    """Return the i1 type, the type of truth values."""
    return ir.IntegerType.get_signless(1)


def pointer() -> ir.Type:
    """Return the type of pointers of the default address space."""
    return llvm.PointerType.get()


def constant(number: int, kind: ir.Type | None = None) -> ir.Value:
    """Emit an integer constant of type ``kind``, i64 by default."""
    kind = kind or i64()
    return llvm.ConstantOp(kind, ir.IntegerAttr.get(kind, number)).result


def as_value(number: Number) -> ir.Value:
    """Return ``number`` as an i64 value; emit a constant if ``number`` is an int."""
    return constant(number) if isinstance(number, int) else number


def add(left: ir.Value, right: Number) -> ir.Value:
    """Emit the sum of two integers."""
    return llvm.AddOp(left, as_value(right), None).result


def multiply(left: ir.Value, right: Number) -> ir.Value:
    """Emit the product of two integers."""
    return llvm.MulOp(left, as_value(right), None).result


def select(condition: ir.Value, then: ir.Value, otherwise: ir.Value) -> ir.Value:
    """Emit the selection of ``then`` if the condition is true, else of ``otherwise``."""
    return llvm.SelectOp(condition, then, otherwise).result


def is_less(left: ir.Value, right: ir.Value) -> ir.Value:
    """Emit the comparison ``left < right`` of signed integers."""
    return llvm.ICmpOp(llvm.ICmpPredicate.slt, left, right).result


def is_equal(left: ir.Value, right: ir.Value) -> ir.Value:
    """Emit the comparison ``left == right`` of integers."""
    return llvm.ICmpOp(llvm.ICmpPredicate.eq, left, right).result


def element(base: ir.Value, index: Number, kind: ir.Type) -> ir.Value:
    """Emit the address of element ``index`` of the array at ``base``, with elements of ``kind``."""
    if isinstance(index, int) and abs(index) <= _LARGEST_CONSTANT:
        return llvm.GEPOp(base.type, base, [], [index], kind, None).result
    return llvm.GEPOp(base.type, base, [as_value(index)], [_DYNAMIC], kind, None).result


def load(kind: ir.Type, address: ir.Value) -> ir.Value:
    """Emit the load of a value of type ``kind``."""
    return llvm.LoadOp(kind, address).result


def load_element(base: ir.Value, index: Number, kind: ir.Type) -> ir.Value:
    """Emit the load of element ``index`` of the array at ``base``, with elements of ``kind``."""
    return load(kind, element(base, index, kind))


def load_number(address: ir.Value) -> ir.Value:
    """Emit the load of an i32, sign-extended to i64."""
    return llvm.SExtOp(i64(), load(i32(), address)).result


def number_at(base: ir.Value, index: Number) -> ir.Value:
    """Emit the load of element ``index`` of an array of i32 at ``base``, sign-extended to i64."""
    return load_number(element(base, index, i32()))


def store(value: ir.Value, address: ir.Value) -> None:
    """Emit the store of a value at an address."""
    llvm.StoreOp(value, address)


def store_release(value: ir.Value, address: ir.Value, scope: str | None = None) -> None:
    """Emit an atomic store of an i64 with release order, for ``load_acquire`` by other threads.

    ``scope`` is LLVM's synchronization scope, None for all threads of the system.
    """
    release = llvm.AtomicOrdering.release
    llvm.StoreOp(value, address, alignment=8, ordering=release, syncscope=scope)


def load_acquire(address: ir.Value, scope: str | None = None) -> ir.Value:
    """Emit an atomic load of an i64 with acquire order, for a ``store_release`` by another thread.

    ``scope`` is LLVM's synchronization scope, None for all threads of the system.
    """
    acquire = llvm.AtomicOrdering.acquire
    return llvm.LoadOp(i64(), address, alignment=8, ordering=acquire, syncscope=scope).result


def call(function: str, *arguments: ir.Value) -> None:
    """Emit a call of a function without a result."""
    llvm.CallOp(None, list(arguments), [], [], callee=function)


def call_together(function: str, *arguments: ir.Value) -> None:
    """Emit a call of a function that all threads of a GPU's block call together (convergent)."""
    llvm.CallOp(None, list(arguments), [], [], callee=function, convergent=True)


def call_for(kind: ir.Type, function: str, *arguments: ir.Value) -> ir.Value:
    """Emit a call of a function with a result of type ``kind``."""
    return llvm.CallOp(kind, list(arguments), [], [], callee=function).result


def branch(block: ir.Block, *values: ir.Value) -> None:
    """Emit a branch to a block; ``values`` become the block's arguments."""
    llvm.BrOp(list(values), block)


def branch_if(condition: ir.Value, then: ir.Block, otherwise: ir.Block, *values: ir.Value) -> None:
    """Emit a branch to the block ``then`` if ``condition`` holds, else to ``otherwise``.

    ``values`` become the arguments of the block ``otherwise``; ``then`` gets no arguments.
    """
    llvm.CondBrOp(condition, [], list(values), then, otherwise)


def switch(value: ir.Value, cases: list[ir.Block], default: ir.Block) -> None:
    """Emit a branch to the block ``cases[value]``; to ``default`` if ``value`` is out of range."""
    kind = ir.IntegerType(value.type)
    numbers = [ir.IntegerAttr.get(kind, number) for number in range(len(cases))]
    values = None
    if cases:
        values = ir.DenseElementsAttr.get(numbers, ir.VectorType.get([len(cases)], kind))
    llvm.SwitchOp(value, [], [], [0] * len(cases), default, cases, case_values=values)


def define(name: str, *arguments: ir.Type, result: ir.Type | None = None) -> ir.Block:
    """Define the LLVM function ``name`` with arguments of the given types; return its entry block.

    The function returns a value of type ``result``, or void if ``result`` is None.
    """
    return declare(name, *arguments, result=result).regions[0].blocks.append(*arguments)


def declare(name: str, *arguments: ir.Type, result: ir.Type | None = None) -> ir.Operation:
    """Declare the LLVM function ``name`` with arguments of the given types; return the operation.

    The function returns a value of type ``result``, or void if ``result`` is None.
    """
    kind = llvm.FunctionType.get(result or ir.Type.parse("!llvm.void"), list(arguments))
    return llvm.LLVMFuncOp(name, ir.TypeAttr.get(kind)).operation


def hide(module: ir.Module, names: Collection[str]) -> None:
    """Give functions hidden visibility, so that calls within a shared library need no PLT entry."""
    hidden = ir.IntegerAttr.get(ir.IntegerType.get_signless(64, module.context), _HIDDEN)
    for op in module.body.operations:
        if op.operation.name == "llvm.func":
            if ir.StringAttr(op.operation.attributes["sym_name"]).value in names:
                op.operation.attributes["visibility_"] = hidden
