"""Fills templates of MLIR text with the sizes and field offsets of C structures.

A template is MLIR text with placeholders; its functions access the fields of structures.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rammer_mlir.bindings import ir


def layout_names(layouts: Mapping[str, np.dtype[np.void]]) -> dict[str, int]:
    """Return the sizes and the field offsets of structures, in bytes, by placeholder name.

    ``layouts`` has the structures by name. The placeholder for the size of structure ``NAME`` is
    ``NAME_bytes``; the placeholder for the offset of the structure's field ``FIELD`` is
    ``NAME_FIELD``.
    """
    found: dict[str, int] = {}
    for name, layout in layouts.items():
        found[f"{name}_bytes"] = layout.itemsize
        for field, (_, offset, *_) in (layout.fields or {}).items():
            found[f"{name}_{field}"] = offset
    return found


def append_functions(module: ir.Module, functions: ir.Module) -> None:
    """Move all functions of ``functions`` to the end of ``module``; both share a context."""
    for op in list(functions.body.operations):
        op.operation.detach_from_parent()
        module.body.append(op)
