"""Defines ``rtask.module``: foreign code linked with the program or run by an engine."""

from rammer_mlir.bindings import ir
from rammer_mlir.dialects.rtask.diagnostics import Broken, attribute, inside, verified
from rammer_mlir.dialects.rtask.dialect import RTask

LINKED = ("c", "llvm", "object", "ptx", "cuda")
"""Formats of code that is linked with ours.

These are C source, LLVM IR as text, a relocatable object, PTX, and CUDA source.
"""

FORMS = (*LINKED, "graph", "binary")
"""All formats of an ``rtask.module``: those that are linked, and those that an engine runs.

An engine runs a ``graph``, which is JSON, or a ``binary``, which is opaque bytes.
"""

ENGINE, NEEDS = "engine", "needs"

_NEED = ("package", "version", "library", "extra")

OBJECTS = "objects"
"""Key of an optional attribute: the relocatable objects that the code calls."""

OPTIONS = "options"
"""Key of an optional attribute: the values of the engine's options, as users set them."""


class ModuleOp(RTask.Operation, name="module"):
    """Foreign code that defines the functions of external rKernels.

    The attribute ``external`` of an ``rtask.kernel`` refers to the module by its symbol.

    - ``form``: the format of ``code``. Code that is linked: C source (``c``), LLVM IR as text
      (``llvm``), a relocatable object (``object``), PTX (``ptx``) or CUDA source (``cuda``). Code
      that an engine executes: a graph in JSON (``graph``) or opaque bytes (``binary``).
    - ``engine``: the name of the engine, for the formats ``graph`` and ``binary`` only.
    - ``objects`` (optional): the relocatable objects that the code calls.
    - ``needs`` (optional): the packages that must be installed where the code runs. Each is a
      dictionary of the strings ``package``, ``version``, ``library`` and ``extra``; only
      ``package`` is required.
    - ``options`` (optional): a dictionary of strings for the engine.
    """

    sym_name: ir.StringAttr
    form: ir.StringAttr
    code: ir.StringAttr

    @staticmethod
    def verify_invariants(op: ir.OpView) -> bool:
        """Whether the form, the code and the optional attributes are valid.

        A broken rule becomes a diagnostic.
        """
        return verified(lambda: _check(op.operation))


def _check(op: ir.Operation) -> None:
    inside(op, "builtin.module")
    form = attribute(op, "form", ir.StringAttr).value
    if form not in FORMS:
        raise Broken(op, f"form {', '.join(FORMS)}", repr(form), "others cannot be linked")
    if not attribute(op, "code", ir.StringAttr).value_bytes:
        raise Broken(op, "code", "an empty string", "a module defines functions")
    if (ENGINE in op.attributes) == (form in LINKED):
        expected = "no engine" if form in LINKED else "the name of an engine"
        raise Broken(op, expected, "another", f"the form is {form}")
    objects = attribute(op, OBJECTS, ir.ArrayAttr) if OBJECTS in op.attributes else ()
    if not all(isinstance(each, ir.StringAttr) for each in objects):
        raise Broken(op, "strings in objects", "others", "each holds the bytes of an object")
    if OPTIONS in op.attributes:
        _check_options(op)
    if NEEDS in op.attributes:
        for entry in attribute(op, NEEDS, ir.ArrayAttr):
            _check_need(op, entry)


def _check_options(op: ir.Operation) -> None:
    options = attribute(op, OPTIONS, ir.DictAttr)
    if ENGINE not in op.attributes or not all(isinstance(o.attr, ir.StringAttr) for o in options):
        expected = "options of strings, beside an engine"
        raise Broken(op, expected, str(options), "the engine reads them")


def _check_need(op: ir.Operation, entry: ir.Attribute) -> None:
    found = {item.name: item.attr for item in entry} if isinstance(entry, ir.DictAttr) else {}
    are_strings = all(isinstance(value, ir.StringAttr) for value in found.values())
    if "package" not in found or not are_strings or not found.keys() <= set(_NEED):
        expected = f"needs of strings {', '.join(_NEED)}, a package at least"
        raise Broken(op, expected, str(entry), "they are looked up where the code runs")
