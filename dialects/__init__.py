"""Registers, prints and parses the `rtask` dialect."""

from __future__ import annotations

from rammer_mlir.dialects.rtask import get_asm, irdl_text, parse, portable_asm, register

__all__ = ["get_asm", "irdl_text", "parse", "portable_asm", "register"]
