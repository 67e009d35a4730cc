"""Message format between a process and its importer child: status, length, content."""

from __future__ import annotations

import struct
from dataclasses import dataclass

HEADER = struct.Struct("<BQ")
"""Status (0 in requests) and number of content bytes."""

OK, FAILED = 0, 1


@dataclass(frozen=True)
class Reply:
    """The child's answer: ``content`` is bytecode if ``status`` is OK, else the reason, a line."""

    status: int
    content: bytes

    @property
    def ok(self) -> bool:
        """Whether the model was imported."""
        return self.status == OK
