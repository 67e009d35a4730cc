"""``rtask.module``: code that does not come from this compiler."""

from rammer_mlir.bindings import ir
from rammer_mlir.dialects.rtask.diagnostics import Broken, attribute, inside, verified
from rammer_mlir.dialects.rtask.dialect import RTask

FORMS = ("c", "llvm", "object")
"""C source, LLVM IR as text, and a relocatable object."""

OBJECTS = "objects"
"""Attribute, where there are any: relocatable objects that the code calls."""


class ModuleOp(RTask.Operation, name="module"):
    """Code from elsewhere, which functions of external rKernels are linked with.

    ``form`` says what ``code`` holds: ``c`` is C source, ``llvm`` LLVM IR as text, ``object`` the
    bytes of a relocatable object. Its symbol is what ``external`` of an ``rtask.kernel`` names.
    The optional attribute ``objects`` is a list of relocatable objects that the code calls.
    """

    sym_name: ir.StringAttr
    form: ir.StringAttr
    code: ir.StringAttr

    @staticmethod
    def verify_invariants(op: ir.OpView) -> bool:
        """Check that there is code, of a known form."""
        return verified(lambda: _check(op.operation))


def _check(op: ir.Operation) -> None:
    inside(op, "builtin.module")
    form = attribute(op, "form", ir.StringAttr).value
    if form not in FORMS:
        raise Broken(op, f"form {', '.join(FORMS)}", repr(form), "others cannot be linked")
    if not attribute(op, "code", ir.StringAttr).value_bytes:
        raise Broken(op, "code", "an empty string", "a module defines functions")
    objects = attribute(op, OBJECTS, ir.ArrayAttr) if OBJECTS in op.attributes else ()
    if not all(isinstance(each, ir.StringAttr) for each in objects):
        raise Broken(op, "strings in objects", "others", "each holds the bytes of an object")
