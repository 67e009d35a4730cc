"""Emits external rKernels as functions of the LLVM dialect that call foreign code.

Each function is a stub with the same interface as any other rKernel: its arguments are the rTask's
id and pointers to buffers. If the foreign code returns a nonzero status, the stub stores this
status and the rKernel's index in the global ``STATUS``, and the run continues to its end.

A foreign function may have a state: a pointer that its first parameter receives in each call. Such
a function is called via a table, into which the runtime writes the function's address and the
state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rammer_mlir.bindings import ir, llvm
from rammer_mlir.dialects.rtask.external import External, read_external
from rammer_mlir.dialects.rtask.functions import signature
from rammer_mlir.errors import PassError
from rammer_mlir.lowering.external.call_list import call_list_module
from rammer_mlir.lowering.external.code import functions_of
from rammer_mlir.lowering.llvm.builders import (
    branch,
    branch_if,
    call,
    call_for,
    constant,
    define,
    element,
    i32,
    i64,
    is_equal,
    load_element,
    pointer,
    store,
)
from rammer_mlir.lowering.llvm.templates import append_functions
from rammer_mlir.passes.ir.code_modules import code_modules
from rammer_mlir.passes.ir.entry import functions, symbol_name
from rammer_mlir.passes.ir.kernels import described_kernels
from rammer_mlir.programs.modules import NATIVE
from rammer_mlir.programs.native_interface import (
    BEGIN_EXCLUSIVE,
    END_EXCLUSIVE,
    MODULE_WORDS,
    MODULES,
    RUN_CALLS,
    STATUS,
    STATUS_BITS,
    ModuleWord,
)


@dataclass(frozen=True)
class ExternalKernel:
    """An external rKernel.

    Attributes:
        name: name of the rKernel.
        external: the code module and the symbol of the foreign function, and whether the function
            has a state or is exclusive (runs alone on the device).
        num_arguments: count of the buffers that are passed to the rKernel.
        form: form of the foreign code module that defines the rKernel, such as ``c`` or ``graph``.
    """

    name: str
    external: External
    num_arguments: int
    form: str

    @property
    def is_linked(self) -> bool:
        """Whether the external function is linked into the program.

        Otherwise an engine (a foreign library, such as ``onnxruntime``) executes the function.
        """
        return self.form in NATIVE


def external_kernels(module: ir.Module) -> list[ExternalKernel]:
    """Return the external rKernels of a module."""
    declared = {symbol_name(function): function for function in functions(module)}
    forms = {
        ir.StringAttr(op.attributes["sym_name"]).value: ir.StringAttr(op.attributes["form"]).value
        for op in code_modules(module)
    }
    found: list[ExternalKernel] = []
    for name, description in described_kernels(module).items():
        external = read_external(description.operation)
        if external is not None:
            inputs, _ = signature(declared[name].operation)
            form = forms[external.module]
            found.append(ExternalKernel(name, external, len(inputs) - 1, form))
    return found


def take_external_kernels(module: ir.Module, kernels: Sequence[ExternalKernel]) -> None:
    """Erase the declarations of external rKernels, and their ``rtask.kernel``s, from a module."""
    descriptions = described_kernels(module)
    declared = {symbol_name(function): function for function in functions(module)}
    for kernel in kernels:
        descriptions[kernel.name].operation.erase()
        declared[kernel.name].operation.erase()


def with_state(kernels: Sequence[ExternalKernel]) -> list[ExternalKernel]:
    """Return the external rKernels that have a state, in the order of their rows in ``MODULES``.

    A row of this table has the addresses of the rKernel's functions, the address that the stub
    calls, and the state. The runtime writes the address to call and the state.
    """
    return [kernel for kernel in kernels if kernel.external.has_state]


def define_external_kernels(
    module: ir.Module, kernels: Sequence[ExternalKernel], numbers: Mapping[str, int], prefix: str
) -> None:
    """Append to a module a stub per rKernel, the status word, and the table ``MODULES``.

    Args:
        module: in the LLVM dialect.
        kernels: external rKernels, whose declarations have been erased from the module.
        numbers: index of each rKernel, by its name; a stub stores the index with a nonzero status.
        prefix: prefix of the stubs' symbols.

    Raises:
        PassError: if two rKernels call the same symbol with a different count of buffers.
    """
    if not kernels:
        return
    rows = {kernel.name: row for row, kernel in enumerate(with_state(kernels))}
    with module.context, ir.Location.unknown(), ir.InsertionPoint(module.body):
        i64_attribute = ir.IntegerAttr.get(i64(), 0)
        llvm.GlobalOp(i64(), STATUS, _external_linkage(), value=i64_attribute)
        _declare(kernels)
        if not all(kernel.is_linked for kernel in kernels):
            append_functions(module, call_list_module())
        if rows:
            _define_table(with_state(kernels))
        for kernel in kernels:
            _define(kernel, numbers[kernel.name], rows.get(kernel.name), prefix + kernel.name)


def _external_linkage() -> ir.Attribute:
    return ir.Attribute.parse("#llvm.linkage<external>")


def _declare(kernels: Sequence[ExternalKernel]) -> None:
    linked = [each for each in kernels if each.is_linked]
    check_one_number_of_buffers(linked)
    declared: dict[str, ir.Type] = {}
    for kernel in linked:
        declared.update(zip(functions_of(kernel.external), _types(kernel), strict=True))
    for symbol, kind in declared.items():
        llvm.LLVMFuncOp(symbol, ir.TypeAttr.get(kind))


def check_one_number_of_buffers(kernels: Sequence[ExternalKernel]) -> None:
    """Check that stateless rKernels with the same external function have equally many buffers.

    Functions with a state get their buffers as an array, whose length may differ between rKernels.

    Raises:
        PassError: if calls of a function have different counts of buffers; the message names the
            function.
    """
    counts: dict[str, int] = {}
    for kernel in (each for each in kernels if not each.external.has_state):
        symbol, found = kernel.external.symbol, kernel.num_arguments
        count = counts.setdefault(symbol, found)
        if count != found:
            raise PassError(
                f"external function '{symbol}': expected one number of buffers, found {count} and "
                f"{found}; give the functions names of their own"
            )


def _types(kernel: ExternalKernel) -> list[ir.Type]:
    """Return the LLVM types of an rKernel's external functions, ordered as in ``functions_of``."""
    if not kernel.external.has_state:
        return [llvm.FunctionType.get(i32(), [i64(), *[pointer()] * kernel.num_arguments])]
    void = ir.Type.parse("!llvm.void")
    return [
        llvm.FunctionType.get(i32(), [pointer(), pointer()]),
        llvm.FunctionType.get(i32(), [pointer(), i64(), pointer()]),
        llvm.FunctionType.get(void, [pointer()]),
    ]


def _define_table(kernels: Sequence[ExternalKernel]) -> None:
    """Define the table ``MODULES``: a row of ``MODULE_WORDS`` addresses per rKernel with a state.

    A row initially has the addresses of the rKernel's linked functions. If an engine runs the
    rKernel, the row has the address of ``RUN_CALLS`` instead. The other addresses of a row, the
    function to call and the state, are zero until the runtime fills them in.
    """
    kind = ir.Type.parse(f"!llvm.array<{MODULE_WORDS * len(kernels)} x ptr>")
    table = llvm.GlobalOp(kind, MODULES, _external_linkage())
    with ir.InsertionPoint(table.operation.regions[0].blocks.append()):
        value = llvm.ZeroOp(kind).result
        for row, kernel in enumerate(kernels):
            for place, symbol in _table_functions(kernel).items():
                address = llvm.AddressOfOp(pointer(), symbol).result
                position = [row * MODULE_WORDS + place]
                value = llvm.InsertValueOp(value, address, position).result
        llvm.ReturnOp(arg=value)


def _table_functions(kernel: ExternalKernel) -> dict[ModuleWord, str]:
    if not kernel.is_linked:
        return {ModuleWord.RUN: RUN_CALLS}
    places = (ModuleWord.OPEN, ModuleWord.RUN, ModuleWord.CLOSE)
    return dict(zip(places, functions_of(kernel.external), strict=True))


def _define(kernel: ExternalKernel, number: int, row: int | None, name: str) -> None:
    entry = define(name, i64(), *[pointer()] * kernel.num_arguments)
    failed = entry.create_after()
    done = failed.create_after()
    with ir.InsertionPoint(entry):
        if kernel.external.is_exclusive:
            call(BEGIN_EXCLUSIVE)
        if row is None:
            status = call_for(i32(), kernel.external.symbol, *entry.arguments)
        else:
            status = _call_by_table(row, *entry.arguments)
        if kernel.external.is_exclusive:
            call(END_EXCLUSIVE)
        branch_if(is_equal(status, constant(0, i32())), done, failed)
    with ir.InsertionPoint(failed):
        word = llvm.OrOp(llvm.ZExtOp(i64(), status).result, constant(number << STATUS_BITS)).result
        store(word, llvm.AddressOfOp(pointer(), STATUS).result)
        branch(done)
    with ir.InsertionPoint(done):
        llvm.ReturnOp()


def _call_by_table(row: int, rtask: ir.Value, *buffers: ir.Value) -> ir.Value:
    table = llvm.AddressOfOp(pointer(), MODULES).result
    words = (row * MODULE_WORDS + word for word in (ModuleWord.FUNCTION, ModuleWord.STATE))
    function, state = (load_element(table, word, pointer()) for word in words)
    array = llvm.AllocaOp(pointer(), constant(len(buffers)), pointer()).result
    for number, buffer in enumerate(buffers):
        store(buffer, element(array, number, pointer()))
    return llvm.CallOp(i32(), [function, state, rtask, array], [], []).result
