"""Rewrites LLVM IR text, as printed by the MLIR bindings' LLVM, for llvmlite's older LLVM."""

from __future__ import annotations

import re

from rammer_mlir.lowering.llvm.float_literals import rewrite_float_literals

_UNKNOWN = re.compile(r"\bnocreateundeforpoison ")
"""Matches an attribute of intrinsics that llvmlite's LLVM does not parse; it is only a hint."""


def downgrade(text: str) -> str:
    """Return the LLVM IR ``text`` in the syntax of llvmlite's older LLVM; its meaning is the same.

    Float literals become bit patterns, and an attribute that the older LLVM does not know is
    removed.
    """
    return rewrite_float_literals(_UNKNOWN.sub("", text))
