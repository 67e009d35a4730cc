"""Messages between a process and its child that imports models: status, length, content."""

from __future__ import annotations

import struct
from dataclasses import dataclass

HEADER = struct.Struct("<BQ")
"""Encoding of a message's header: status (0 in requests), and number of content bytes."""

OK, FAILED = 0, 1


@dataclass(frozen=True)
class Reply:
    """The child's answer.

    Attributes:
        status: OK or FAILED.
        content: MLIR bytecode if ``status`` is OK, else a line with the error.
    """

    status: int
    content: bytes

    @property
    def ok(self) -> bool:
        """Whether the model was imported."""
        return self.status == OK
