"""The threads of a block, as the code of one of them sees them."""

from __future__ import annotations

from dataclasses import dataclass

from rammer_mlir.bindings import ir


@dataclass(frozen=True)
class Threads:
    """A thread's number in its block, an ``index`` value, and the block's size."""

    number: ir.Value
    count: int
