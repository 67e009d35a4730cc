"""Compiles LLVM IR text to objects and assembly, by llvmlite.

The file does not import MLIR, so that worker processes that compile objects start fast.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import llvmlite.binding as llvm
from llvmlite.binding.newpassmanagers import NewPassManager

from rammer_mlir.errors import TargetError
from rammer_mlir.lowering.llvm.machine import LLVM_LOCK, Machine, initialize_llvm
from rammer_mlir.lowering.llvm.runtime_calls import with_runtime_calls


@dataclass(frozen=True)
class LinkedIr:
    """External LLVM IR to be linked into a module.

    Attributes:
        name: the external module's name in messages.
        text: the LLVM IR.
        symbols: names of the functions that the external module has to define.
    """

    name: str
    text: str
    symbols: tuple[str, ...] = ()


def emit_object(ir_text: str, machine: Machine, linked: Sequence[LinkedIr] = ()) -> bytes:
    """Optimize LLVM IR text and compile it for ``machine``; return the relocatable object.

    The modules in ``linked`` are optimized together with the text, and may be inlined.

    Raises:
        TargetError: if LLVM does not parse the text, or a module of ``linked`` cannot be linked or
            does not define each of its ``symbols`` with the type of the text's calls.
    """
    with LLVM_LOCK:
        target = machine.create_target_machine()
        return target.emit_object(_optimized(ir_text, target, linked))


def emit_assembly(ir_text: str, machine: Machine, linked: Sequence[LinkedIr] = ()) -> str:
    """Optimize LLVM IR text and compile it for ``machine``; return the assembly text.

    The modules in ``linked`` are optimized together with the text, and may be inlined.

    Raises:
        TargetError: if LLVM does not parse the text, or a module of ``linked`` cannot be linked or
            does not define each of its ``symbols`` with the type of the text's calls.
    """
    with LLVM_LOCK:
        target = machine.create_target_machine()
        return target.emit_assembly(_optimized(ir_text, target, linked))


def _optimized(
    ir_text: str, target: llvm.TargetMachine, linked: Sequence[LinkedIr] = ()
) -> llvm.ModuleRef:
    """Parse LLVM IR text, link ``linked`` IR, and optimize both together; return the module.

    The returned module can be emitted only once, because emission changes it.

    Raises:
        TargetError: if LLVM does not parse the text, or a module of ``linked`` cannot be linked or
            does not define each of its ``symbols`` with the type of the text's calls.
    """
    initialize_llvm()
    try:
        module = llvm.parse_assembly(with_runtime_calls(ir_text, target.triple))
    except RuntimeError as error:
        raise TargetError(
            f"LLVM IR: expected text that LLVM {llvm.llvm_version_info[0]} parses, "
            f"found '{_one_line(error)}'; this is a fault of the compiler, please report it"
        ) from error
    module.triple = target.triple
    module.data_layout = str(target.target_data)
    for other in linked:
        _link(module, other)
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    # Kernels are vectorized and unrolled already: repeating it costs compile time and registers.
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_unrolling = False
    options.loop_interleaving = False
    builder = llvm.create_pass_builder(target, options)
    passes = builder.getModulePassManager()
    passes.run(module, builder)
    # llvmlite's class inherits an empty ``_dispose`` first, and would never free the passes.
    NewPassManager._dispose(passes)  # pyright: ignore[reportPrivateUsage]
    passes.detach()
    return module


def undefined(module: str, symbol: str, details: str = "none") -> TargetError:
    """Return an error which says that foreign code does not define the function ``symbol``.

    ``module`` is the name of the foreign code. ``details`` says what the foreign code has in place
    of the definition; the message has this text after "found".
    """
    return TargetError(
        f"module '{module}': expected a definition of the function '{symbol}', found {details}; "
        "define it, or name another one"
    )


def parse_linked(name: str, text: str) -> llvm.ModuleRef:
    """Parse the LLVM IR ``text`` of foreign code ``name``; the caller must hold ``LLVM_LOCK``.

    Raises:
        TargetError: if LLVM does not parse the text; the message names the foreign code.
    """
    initialize_llvm()
    try:
        return llvm.parse_assembly(text)
    except RuntimeError as error:
        raise _not_linked(name, error) from error


def _not_linked(name: str, error: Exception) -> TargetError:
    return TargetError(
        f"module '{name}': expected LLVM IR that LLVM {llvm.llvm_version_info[0]} parses "
        f"and that defines what no other code does, found '{_one_line(error)}'; mend it"
    )


def _link(module: llvm.ModuleRef, other: LinkedIr) -> None:
    """Link external LLVM IR into a module; the external functions become internal.

    Raises:
        TargetError: if the IR cannot be parsed or linked, or does not define a function of
            ``other.symbols`` with the type of the module's calls.
    """
    added = parse_linked(other.name, other.text)
    added.triple, added.data_layout = module.triple, module.data_layout
    visible = (f for f in added.functions if f.linkage is not llvm.Linkage.internal)
    defined = [function.name for function in visible if not function.is_declaration]
    for symbol in other.symbols:
        if symbol not in defined:
            raise undefined(other.name, symbol)
        _check_type(other.name, module.get_function(symbol), added.get_function(symbol))
    try:
        module.link_in(added)
    except RuntimeError as error:
        raise _not_linked(other.name, error) from error
    for name in defined:
        module.get_function(name).linkage = llvm.Linkage.internal


def _check_type(name: str, called: llvm.ValueRef, defined: llvm.ValueRef) -> None:
    """Check that a function is defined with the type with which the program calls the function.

    LLVM would treat a call with another type as unreachable. ``name`` is the external module's
    name.

    Raises:
        TargetError: if the types differ.
    """
    expected, found = str(called.global_value_type), str(defined.global_value_type)
    if found != expected:
        raise TargetError(
            f"module '{name}': expected the function '{defined.name}' of type '{expected}', found "
            f"'{found}'; mend it"
        )


def _one_line(error: Exception) -> str:
    """Return the text of an LLVM error as a single line, cut to 200 characters."""
    return " ".join(str(error).split())[:200]
