"""Selects the foreign code to link as LLVM IR and the code to link as objects.

Code in LLVM IR is optimized together with the program; all other code is linked as objects.
"""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.errors import TargetError
from rammer_mlir.lowering.external.c_compiler import compile_c
from rammer_mlir.lowering.external.code import ForeignCode
from rammer_mlir.lowering.external.symbols import check_symbols
from rammer_mlir.lowering.llvm.codegen import LinkedIr
from rammer_mlir.lowering.llvm.machine import Machine, host_machine
from rammer_mlir.programs.modules import CPU_FORMS


def linked_ir(code: Sequence[ForeignCode]) -> tuple[LinkedIr, ...]:
    """Return the modules of foreign code that are in LLVM IR, to be optimized with the program."""
    return tuple(
        LinkedIr(each.name, each.text, each.symbols) for each in code if each.form == "llvm"
    )


def linked_objects(code: Sequence[ForeignCode], machine: Machine) -> tuple[bytes, ...]:
    """Return the objects to link: those of all linked code except LLVM IR, and their dependencies.

    C source is compiled for ``machine``. The dependencies are the relocatable objects that were
    given with the code modules.

    Raises:
        TargetError: if the code is for a GPU, C source cannot be compiled, a function that rKernels
            call is missing, or the code uses a symbol that nothing defines.
    """
    found: list[bytes] = []
    for each in code:
        if each.form not in CPU_FORMS:
            raise TargetError(
                f"module '{each.name}': expected code of a form for a CPU, "
                f"{', '.join(CPU_FORMS)}, found '{each.form}'; choose a GPU as target"
            )
        own: bytes | None = None
        if each.is_linked and each.form != "llvm":
            own = compile_c(each, machine) if each.form == "c" else each.content
            found.append(own)
        if each.is_linked and machine == host_machine():
            check_symbols(each, own)
        found.extend(each.objects)
    return tuple(dict.fromkeys(found))
