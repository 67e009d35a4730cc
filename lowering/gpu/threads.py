"""Describes a block's threads to the code of one thread: its index, and the thread count."""

from __future__ import annotations

from dataclasses import dataclass

from rammer_mlir.bindings import ir


@dataclass(frozen=True)
class Threads:
    """The threads of a block, as the code of one thread knows them.

    Attributes:
        number: the thread's index in the block, a value of type ``index``.
        count: count of threads of the block.
    """

    number: ir.Value
    count: int
