"""Rewrites LLVM IR text, as printed by the MLIR bindings' LLVM, for llvmlite's older LLVM."""

from __future__ import annotations

import re

from rammer_mlir.lowering.llvm.float_literals import rewrite_float_literals

_UNKNOWN = re.compile(r"\bnocreateundeforpoison ")
"""Matches an attribute of intrinsics that llvmlite's LLVM does not parse; it is only a hint."""


def downgrade(text: str) -> str:
    """Return LLVM IR with the same meaning in syntax that llvmlite's older LLVM parses."""
    return rewrite_float_literals(_UNKNOWN.sub("", text))
