"""The `rtask` dialect."""

from __future__ import annotations

from rammer_mlir.dialects.rtask import register

__all__ = ["register"]
