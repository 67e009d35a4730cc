"""Computes the seal of an artifact, which detects changes after the file was written.

Generated code does not check the schedule that it reads. If a number in a member were changed by
hand, or a member were replaced by that of another model, the code could wait forever or write to
any address, even if each member has a valid format.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

SEAL = "seal"
"""Manifest entry of the seal."""


@dataclass(frozen=True)
class Content:
    """Checksum of a member: its name, size in bytes, and CRC-32."""

    name: str
    num_bytes: int
    crc: int


def seal_of(manifest: Mapping[str, Any], members: Iterable[Content]) -> str:
    """Return the seal: a hexadecimal SHA-256 digest of the manifest and the members' checksums.

    The manifest's entry for the seal is left out. ``members`` are all members of the archive except
    the manifest and the signature.
    """
    entries = {name: value for name, value in manifest.items() if name != SEAL}
    contents = sorted((member.name, member.num_bytes, member.crc) for member in members)
    return hashlib.sha256(json.dumps([entries, contents], sort_keys=True).encode()).hexdigest()
