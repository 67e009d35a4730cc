"""Emits the function ``RUN_CALLS`` of ``call_list.mlir``, which runs a list of C function calls.

An engine provides the list at run time. The text in ``call_list.mlir`` has placeholders for
symbols, and for the byte offsets of fields in the list's structures (``native_interface.py``); this
module fills them in.
"""

from __future__ import annotations

from pathlib import Path
from string import Template

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.llvm.templates import layout_names
from rammer_mlir.programs.native_interface import (
    BOUND,
    CALL,
    CALL_ARGUMENTS,
    CALL_LIST,
    RUN_CALLS,
)

_TEXT = Path(__file__).with_suffix(".mlir")


def call_list_module() -> ir.Module:
    """Return a module with the function ``RUN_CALLS`` and its callees."""
    layouts = {"list": CALL_LIST, "bound": BOUND, "call": CALL}
    symbols = {"run_calls": RUN_CALLS, "num_arguments": CALL_ARGUMENTS}
    # Raises KeyError if the text uses an undefined name.
    return ir.Module.parse(Template(_TEXT.read_text()).substitute(symbols | layout_names(layouts)))
