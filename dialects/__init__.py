"""The `rtask` dialect: registering it in a context, and its readable form."""

from __future__ import annotations

from rammer_mlir.dialects.rtask import get_asm, irdl_text, parse, portable_asm, register

__all__ = ["get_asm", "irdl_text", "parse", "portable_asm", "register"]
