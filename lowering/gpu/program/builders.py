"""Builds operations of persistent kernels at the current insertion point.

Words of the task table are of type i64; positions in memory and rTask ids are of type ``index``.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from rammer_mlir.bindings import arith, func, ir, memref, scf
from rammer_mlir.lowering.llvm.builders import i64

DYNAMIC = ir.ShapedType.get_dynamic_size()


def words_type(count: int) -> ir.MemRefType:
    """Return the memref type of a buffer of ``count`` words, each an i64."""
    return ir.MemRefType.get([count], i64())


def bytes_type(count: int, space: str | None = None) -> ir.MemRefType:
    """Return the memref type of a buffer of ``count`` bytes in memory space ``space``.

    Without ``space``, the buffer is in the default memory space.
    """
    memory = None if space is None else ir.Attribute.parse(space)
    return ir.MemRefType.get([count], ir.IntegerType.get_signless(8), memory_space=memory)


def index(number: int) -> ir.Value:
    """Emit a constant of type index."""
    return arith.constant(ir.IndexType.get(), number)


def word(number: int) -> ir.Value:
    """Emit a constant of type i64."""
    return arith.constant(i64(), number)


def as_index(value: ir.Value) -> ir.Value:
    """Emit the cast of an i64 word to an index."""
    return arith.index_cast(ir.IndexType.get(), value)


def as_word(value: ir.Value) -> ir.Value:
    """Emit the cast of an index to an i64 word."""
    return arith.index_cast(i64(), value)


def add(left: ir.Value, right: ir.Value) -> ir.Value:
    """Emit the sum of two values of the same type, i64 or index."""
    return arith.addi(left, right)


def offset(position: ir.Value, number: int) -> ir.Value:
    """Emit the sum of an index and a constant."""
    return add(position, index(number))


def multiply(left: ir.Value, right: ir.Value) -> ir.Value:
    """Emit the product of two values of the same type, i64 or index."""
    return arith.muli(left, right)


def compare(predicate: str, left: ir.Value, right: ir.Value) -> ir.Value:
    """Emit the ``arith.cmpi`` with predicate ``predicate``, such as "slt"; return the i1."""
    return arith.cmpi(getattr(arith.CmpIPredicate, predicate), left, right)


def load_word(buffer: ir.Value, position: ir.Value) -> ir.Value:
    """Emit the load of the word at index ``position`` of a buffer."""
    return memref.load(buffer, [position])


@contextmanager
def repeat(first: ir.Value, limit: ir.Value, step: ir.Value) -> Generator[ir.Value]:
    """Emit a loop from ``first`` to ``limit``, exclusive; the ``with`` block emits its body.

    Yield the induction variable.
    """
    loop = scf.ForOp(first, limit, step)
    with ir.InsertionPoint(loop.body):
        yield loop.induction_variable
        scf.YieldOp([])


@contextmanager
def function(
    name: str, arguments: Sequence[ir.Type], results: Sequence[ir.Type] = ()
) -> Generator[Sequence[ir.Value]]:
    """Emit a private function ``name``; the ``with`` block emits the function's body and return.

    Yield the function's arguments.
    """
    kind = ir.FunctionType.get(list(arguments), list(results))
    operation = func.FuncOp(name, kind, visibility="private")
    block: ir.Block = operation.add_entry_block()
    with ir.InsertionPoint(block):
        yield block.arguments


def call(name: str, *arguments: ir.Value) -> None:
    """Emit a call of the function ``name``, which has no results."""
    func.CallOp([], name, list(arguments))
