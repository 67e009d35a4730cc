"""A seal over an artifact: it tells a file that was changed from one that was written so.

Code takes what it reads of the schedule as given. A number changed by hand, or a member of another
model, would make it wait for ever or write anywhere; nothing of it looks wrong by itself.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

SEAL = "seal"
"""The manifest's entry."""


@dataclass(frozen=True)
class Content:
    """What a member holds: its name, size in bytes, and CRC-32."""

    name: str
    num_bytes: int
    crc: int


def seal_of(manifest: Mapping[str, Any], members: Iterable[Content]) -> str:
    """Return the SHA-256 of a manifest but for its seal, and of the other members' contents."""
    entries = {name: value for name, value in manifest.items() if name != SEAL}
    contents = sorted((member.name, member.num_bytes, member.crc) for member in members)
    return hashlib.sha256(json.dumps([entries, contents], sort_keys=True).encode()).hexdigest()
