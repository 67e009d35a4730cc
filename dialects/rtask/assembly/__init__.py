"""Prints and parses the readable form: MLIR text with custom assembly of `rtask` operations.

MLIR gives operations that are defined from Python no custom assembly format. Therefore, a printer
rewrites the text that MLIR prints, and a parser translates the readable form, line for line, into
the generic form that MLIR parses. `docs/assembly.md` has the grammar.
"""

from __future__ import annotations

import re

from rammer_mlir.bindings import ir, load_created_dialect
from rammer_mlir.dialects.rtask.assembly.encoding import check_encoding
from rammer_mlir.dialects.rtask.assembly.nesting import check_nesting
from rammer_mlir.errors import AssemblyError

_READABLE = re.compile(r'(?<!")\brtask\.(?:kernel|operator|program|veu|run|barrier)\b')
_LOADED_ON_DEMAND = re.compile(rb"\b(?:chlo|tm_tensor)\b")
_GENERIC = '"rtask.'
_NO_TEXT = "str_from_cstr"
"""The bindings' function that converts MLIR's texts, in the message if one is not UTF-8."""

_GENERIC_MODULE = re.compile(r'^"builtin\.module"\(', re.MULTILINE)


def parse(text: str | bytes, context: ir.Context | None = None) -> ir.Module:
    """Parse a module in the readable or the generic form, or bytecode, and return it.

    Without a context, the current context is used. The `rtask` dialect must be registered in the
    context. The locations of operations are their lines in ``text``.

    Raises:
        AssemblyError: at the line where the text is not in the readable form, is nested too deeply,
            or has a name that is not UTF-8; at line 0 for bytecode.
        MLIRError: if MLIR or a verifier refuses the module.
    """
    check_encoding(text)
    if isinstance(text, str):
        check_nesting(text)
    if isinstance(text, str) and _READABLE.search(text):
        # Only where needed: MLIR alone parses modules of other dialects, at its full speed.
        from rammer_mlir.dialects.rtask.assembly.parser import to_generic

        text = to_generic(text)
    # With threads, MLIR's verification of the module would wait for our verifiers for ever.
    used = context or ir.Context.current
    if used is not None:
        used.enable_multithreading(False)
        given = text if isinstance(text, bytes) else text.encode()
        for name in {*_LOADED_ON_DEMAND.findall(given)}:
            load_created_dialect(name.decode(), used)
    try:
        return ir.Module.parse(text, context)
    except RuntimeError as error:
        if _NO_TEXT not in str(error):
            raise
        message = "expected texts in UTF-8, found others in an error of MLIR"
        raise AssemblyError(0, message) from error


def get_asm(
    module: ir.Module | ir.Operation | ir.OpView,
    *,
    enable_debug_info: bool = False,
    pretty_debug_info: bool = False,
    use_local_scope: bool = False,
    use_name_loc_as_prefix: bool = False,
    skip_regions: bool = False,
    large_elements_limit: int | None = None,
    large_resource_limit: int | None = None,
    assume_verified: bool = False,
) -> str:
    """Return a module as text in the readable form, which ``parse`` reads back.

    The options are those of the bindings' ``Operation.get_asm``; ``enable_debug_info`` prints
    locations. Without locations, each ``rtask.operator`` and ``rtask.run`` is printed with the name
    of its node in the model. A module that fails verification is printed in the generic form, as
    MLIR does.
    """
    text: str = module.operation.get_asm(
        enable_debug_info=enable_debug_info,
        pretty_debug_info=pretty_debug_info,
        use_local_scope=use_local_scope,
        use_name_loc_as_prefix=use_name_loc_as_prefix,
        skip_regions=skip_regions,
        large_elements_limit=large_elements_limit,
        large_resource_limit=large_resource_limit,
        assume_verified=assume_verified,
    )
    if _GENERIC not in text or _GENERIC_MODULE.search(text):
        return text
    from rammer_mlir.dialects.rtask.assembly.names import names_of
    from rammer_mlir.dialects.rtask.assembly.printer import to_readable

    return to_readable(text, () if enable_debug_info else names_of(module.operation))


__all__ = ["get_asm", "parse"]
