"""Messages between a process and its importer child: a status, a length, and that many bytes."""

from __future__ import annotations

import struct
from dataclasses import dataclass

HEADER = struct.Struct("<BQ")
"""Status (0 in requests) and number of bytes that follow."""

OK, FAILED = 0, 1


@dataclass(frozen=True)
class Reply:
    """What the child answered: bytecode, or one line that says what was not possible."""

    status: int
    content: bytes

    @property
    def ok(self) -> bool:
        """Whether the model was imported."""
        return self.status == OK
