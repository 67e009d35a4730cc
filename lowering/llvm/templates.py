"""Computes values of placeholders in MLIR text: sizes and offsets of structures that it reads."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rammer_mlir.bindings import ir


def layout_names(layouts: Mapping[str, np.dtype[np.void]]) -> dict[str, int]:
    """Return the sizes and field offsets of structures, in bytes, by the placeholder's name.

    ``layouts`` has the structures by name. The size of structure ``NAME`` has the name
    ``NAME_bytes``, the offset of its field ``FIELD`` the name ``NAME_FIELD``.
    """
    found: dict[str, int] = {}
    for name, layout in layouts.items():
        found[f"{name}_bytes"] = layout.itemsize
        for field, (_, offset, *_) in (layout.fields or {}).items():
            found[f"{name}_{field}"] = offset
    return found


def append_functions(module: ir.Module, functions: ir.Module) -> None:
    """Move all functions of another module of the same context to the end of a module."""
    for op in list(functions.body.operations):
        op.operation.detach_from_parent()
        module.body.append(op)
