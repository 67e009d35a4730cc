"""The `rtask` dialect: registering it in a context, and its readable form."""

from __future__ import annotations

from rammer_mlir.dialects.rtask import get_asm, parse, register

__all__ = ["get_asm", "parse", "register"]
