"""Selection of external code by the way of linking.

Code in LLVM IR is optimized together with the program; all other code is linked as objects.
"""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.errors import TargetError
from rammer_mlir.lowering.external.c_compiler import compile_c
from rammer_mlir.lowering.external.code import ForeignCode
from rammer_mlir.lowering.llvm.codegen import LinkedIr, undefined
from rammer_mlir.lowering.llvm.jit import load_object
from rammer_mlir.lowering.llvm.machine import Machine, host_machine
from rammer_mlir.programs.modules import CPU_FORMS


def linked_ir(code: Sequence[ForeignCode]) -> tuple[LinkedIr, ...]:
    """Return the modules of external code that are in LLVM IR, to be optimized with the program."""
    return tuple(
        LinkedIr(each.name, each.text, each.symbols) for each in code if each.form == "llvm"
    )


def linked_objects(code: Sequence[ForeignCode], machine: Machine) -> tuple[bytes, ...]:
    """Return the objects to link: those of all linked code but LLVM IR, and the objects they call.

    C source is compiled for ``machine``.

    Raises:
        TargetError: if the code is for a GPU, C source cannot be compiled, or a function that
            rKernels call is missing.
    """
    found: list[bytes] = []
    for each in code:
        if each.form not in CPU_FORMS:
            raise TargetError(
                f"module '{each.name}': expected code of a form for a CPU, "
                f"{', '.join(CPU_FORMS)}, found '{each.form}'; choose a GPU as target"
            )
        if each.is_linked and each.form != "llvm":
            found.append(compile_c(each, machine) if each.form == "c" else each.content)
            if machine == host_machine():
                _check_symbols(each, found[-1])
        found.extend(each.objects)
    return tuple(dict.fromkeys(found))


def _check_symbols(code: ForeignCode, content: bytes) -> None:
    """Raise an error that names the module if its object lacks a function that rKernels call."""
    library = load_object(content, *code.objects)
    for symbol in code.symbols:
        try:
            library.address(symbol)
        except TargetError as error:
            raise undefined(code.name, symbol, f"none ({error.__cause__})") from error
