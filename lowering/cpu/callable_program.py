"""Defines a function with the C calling convention that executes a vEU's share of a program.

An entry function reads a context, an array of 64-bit words (``ContextWord``), which this project's
runtime fills in. The function of this file fills in the context itself, from its arguments and from
tables in the object file, so that the object file needs no runtime library.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.bindings import ir, llvm
from rammer_mlir.lowering.cpu.runtime import YIELD
from rammer_mlir.lowering.llvm.builders import (
    branch,
    branch_if,
    call,
    call_for,
    constant,
    define,
    element,
    i1,
    i64,
    load_element,
    pointer,
    store,
)
from rammer_mlir.programs.cpu_table import CpuTable
from rammer_mlir.programs.native_interface import ENTRY, VEU, ContextWord

_POLLS = 1000
"""Number of times that a waiting vEU polls a step counter before it yields its core."""


def define_callable(module: ir.Module, name: str, table: CpuTable) -> None:
    """Append a function ``name(vEU, run, counters, arguments)`` and the tables that it reads.

    ``run`` counts the program's runs from 1; ``counters`` has the step counters of all vEUs. All
    functions that were in the module before become internal, so that objects of several programs
    can be linked together.

    Args:
        module: a module of the LLVM dialect with the program's entry function.
        name: name of the function.
        table: the encoded schedule. Each slot has the base ``input``; the slot's index is the index
            of an argument of the entry function, in the array ``arguments``.
    """
    for op in module.body.operations:
        _make_internal(op.operation)
    tables = {
        ContextWord.RECORDS: _table(f"{name}.records", table.records),
        ContextWord.ARGUMENTS: _table(f"{name}.arguments", table.arguments),
        ContextWord.STARTS: _table(f"{name}.starts", table.starts),
        ContextWord.TOTALS: _table(f"{name}.totals", table.totals),
    }
    block = define(name, i64(), i64(), pointer(), pointer())
    with ir.InsertionPoint(block):
        context = _context(block, table, tables)
        state = _on_stack(i64(), VEU.itemsize // 8)
        for word in range(VEU.itemsize // 8):
            store(constant(0), element(state, word, i64()))
        _run_to_the_end(block, context, state)


def _make_internal(op: ir.Operation) -> None:
    """Make a function of the LLVM dialect internal, unless it is a declaration without a body."""
    if op.name == "llvm.func" and op.regions[0].blocks:
        op.attributes["linkage"] = ir.Attribute.parse("#llvm.linkage<internal>")
        if "visibility_" in op.attributes:
            op.attributes["visibility_"] = ir.IntegerAttr.get(i64(), 0)


def _run_to_the_end(block: ir.Block, context: ir.Value, state: ir.Value) -> None:
    """Emit a loop that executes the vEU to its end, and end ``block`` with a branch to the loop.

    The loop calls the entry function with ``context`` and ``state``, yields the core whenever the
    vEU is suspended at an unmet barrier, and returns at the vEU's end. No other thread can take
    over the vEU, because callers have one thread per vEU.
    """
    run, left, done = (block.create_after() for _ in range(3))
    branch(run)
    with ir.InsertionPoint(run):
        branch_if(call_for(i1(), ENTRY, block.arguments[0], context, state), done, left)
    with ir.InsertionPoint(left):
        call(YIELD)
        branch(run)
    with ir.InsertionPoint(done):
        llvm.ReturnOp()


def _context(block: ir.Block, table: CpuTable, tables: Mapping[ContextWord, str]) -> ir.Value:
    """Emit the array of words that the entry function reads, on the stack; return its address.

    ``block`` has the arguments (vEU, run, counters, arguments), from which some of the words are
    computed. Each remaining word is the address of a constant array, whose symbol is in ``tables``.
    """
    _, run, counters, arguments = block.arguments
    context = _on_stack(i64(), len(ContextWord))
    pointers = _on_stack(pointer(), max(len(table.slots), 1))
    buffers: dict[int, ir.Value] = {}
    for number, slot in enumerate(table.slots):
        if slot.index not in buffers:
            buffers[slot.index] = load_element(arguments, slot.index, pointer())
        begin = element(buffers[slot.index], slot.offset, ir.IntegerType.get_signless(8))
        store(begin, element(pointers, number, pointer()))
    words: dict[ContextWord, ir.Value] = {
        ContextWord.POINTERS: pointers,
        ContextWord.STEPS: counters,
        ContextWord.RUN: run,
        ContextWord.TRACES: constant(0),
        ContextWord.SPINS: constant(_POLLS),
    }
    for word, symbol in tables.items():
        words[word] = llvm.AddressOfOp(pointer(), symbol).result
    for word, value in words.items():
        store(value, element(context, int(word), i64()))
    return context


def _on_stack(kind: ir.Type, count: int) -> Any:
    return llvm.AllocaOp(pointer(), constant(count), kind, alignment=8).result


def _table(name: str, numbers: NDArray[np.int32] | NDArray[np.int64]) -> str:
    """Emit a global constant array of ``numbers`` with the symbol ``name``; return the symbol."""
    bits = 8 * numbers.itemsize
    array = numbers if numbers.size else np.zeros(1, numbers.dtype)  # LLVM rejects empty arrays
    kind = ir.Type.parse(f"!llvm.array<{array.size} x i{bits}>")
    llvm.GlobalOp(
        kind,
        name,
        ir.Attribute.parse("#llvm.linkage<internal>"),
        value=ir.DenseElementsAttr.get(
            np.ascontiguousarray(array), type=ir.IntegerType.get_signless(bits)
        ),
        constant=True,
    )
    return name
