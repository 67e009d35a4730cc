"""Checks foreign code for a GPU: its form, and the functions that its LLVM IR calls."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rammer_mlir.errors import TargetError
from rammer_mlir.lowering.external.code import ForeignCode
from rammer_mlir.lowering.llvm.codegen import parse_linked
from rammer_mlir.lowering.llvm.machine import LLVM_LOCK
from rammer_mlir.programs.modules import forms_for

_OWN_INTRINSICS = {"nvvm": "nvvm", "rocdl": "amdgcn"}
"""Prefix of a target's specific LLVM intrinsics, by the prefix of the ``--target`` option's value.
"""

_PROCESSORS = frozenset(("nvvm", "amdgcn", "r600", "x86", "aarch64", "arm", "spv"))

_LIBRARY = re.compile(
    r"(a?(sin|cos|tan)h?|atan2|sincos\w*|exp(2|10)?|log(2|10)?|powi?|ldexp|frexp|modf)"
)
"""Names of LLVM intrinsics without instructions on GPUs, without ``llvm.`` and types.

LLVM's code generators abort the process on them.
"""


def check_device_code(code: Sequence[ForeignCode], target: str) -> None:
    """Check that foreign code can be compiled for a GPU.

    Args:
        code: foreign code.
        target: the GPU as ``--target`` names it, or the emulator.

    Raises:
        TargetError: if code has a form that the target does not support, has relocatable objects,
            or calls functions that are neither in the code nor available on the GPU.
    """
    for each in code:
        forms = forms_for(target)
        if each.form not in forms:
            raise _refused(each, f"code of the form {', '.join(forms)}", f"'{each.form}'", target)
        if each.objects:
            raise _refused(each, "no objects", str(len(each.objects)), target)
        if each.form == "llvm":
            _check_ir(each, target)


def _check_ir(code: ForeignCode, target: str) -> None:
    with LLVM_LOCK:
        module = parse_linked(code.name, code.text)
        called = [each.name for each in module.functions if each.is_declaration]
    for name in called:
        if not _is_known(name, target):
            expected = "functions that it defines, and intrinsics of the target"
            raise _refused(code, expected, f"a call of '{name}'", target)


def _is_known(name: str, target: str) -> bool:
    """Return whether LLVM's code generator has instructions for the declared function ``name``.

    ``target`` is the GPU in the form of the ``--target`` option.
    """
    first, *rest = name.split(".")
    if first != "llvm" or not rest or _LIBRARY.fullmatch(rest[0]):
        return False
    own = _OWN_INTRINSICS.get(target.partition(":")[0])
    return rest[0] not in _PROCESSORS or rest[0] == own


def _refused(code: ForeignCode, expected: str, found: str, target: str) -> TargetError:
    return TargetError(
        f"module '{code.name}': expected {expected} for {target}, found {found}; mend it, or "
        "leave it out"
    )
