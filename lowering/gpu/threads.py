"""The threads of a block, as the code of one of them sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Threads:
    """A thread's number in its block, an ``index`` value, and the block's size."""

    number: Any
    count: int
