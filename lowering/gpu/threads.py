"""Describes the threads of a block as seen by a single thread: its number, and their number."""

from __future__ import annotations

from dataclasses import dataclass

from rammer_mlir.bindings import ir


@dataclass(frozen=True)
class Threads:
    """A thread's number in its block, an ``index`` value, and the block's number of threads."""

    number: ir.Value
    count: int
