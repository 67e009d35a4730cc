"""ZIP archives whose members are stored as they are, each at a multiple of 64 bytes."""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from collections.abc import Sequence
from typing import IO

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.support.aligned import ALIGNMENT, aligned_bytes

_LOCAL_HEADER, _END_RECORD, _END = 30, 22, b"PK\5\6"
"""Sizes of records of ZIP archives, and how the last one begins; without a comment it is last."""

_LENGTHS = 26
"""Where a local header has the lengths of the member's name and extra fields."""

_LARGE, _LARGE_FIELD = 1 << 31, 20
"""Bytes from which a member gets a ZIP64 field, and that field's size."""

_PADDING_FIELD = 0xD935
"""Identifies an extra field that only aligns what follows (as Android's zipalign uses it)."""

_WORTH_MAPPING = 1 << 20
"""Bytes up to which a member is read: that takes no longer, and nobody can change it then."""


Pieces = Sequence[bytes | memoryview]
"""A member's content, one piece after the other."""


def size_of(pieces: Pieces) -> int:
    """Return the bytes of all pieces."""
    return sum(memoryview(piece).nbytes for piece in pieces)


def add_member(archive: zipfile.ZipFile, file: IO[bytes], name: str, pieces: Pieces) -> None:
    """Add a member whose data begins at a multiple of the alignment."""
    entry = zipfile.ZipInfo(name)
    is_large = size_of(pieces) >= _LARGE
    fixed = file.tell() + _LOCAL_HEADER + len(name) + 4 + is_large * _LARGE_FIELD
    padding = -fixed % ALIGNMENT
    entry.extra = struct.pack("<HH", _PADDING_FIELD, padding) + bytes(padding)
    with archive.open(entry, "w", force_zip64=is_large) as member:
        for piece in pieces:
            member.write(piece)


def is_as_written(archive: zipfile.ZipFile, file: IO[bytes]) -> bool:
    """Whether nothing is in front of the archive or after it, and every member is stored."""
    file.seek(-_END_RECORD, os.SEEK_END)
    if not file.read().startswith(_END) or archive.comment:
        return False
    entries = archive.infolist()
    return min((entry.header_offset for entry in entries), default=0) == 0 and all(
        entry.compress_type == zipfile.ZIP_STORED and entry.compress_size == entry.file_size
        for entry in entries
    )


def map_member(
    archive: zipfile.ZipFile, file: IO[bytes], name: str, *, mapped: bool
) -> NDArray[np.uint8]:
    """Return a stored member's bytes, which begin at a multiple of the alignment.

    Args:
        archive: in ``file``.
        file: the open file.
        name: the member's.
        mapped: map large members into memory; whoever changes the file then changes the bytes.

    Raises:
        BadZipFile: if the bytes that were read are not those that were written.
    """
    entry = archive.getinfo(name)
    start = _first_byte(file, entry)
    if mapped and entry.file_size > _WORTH_MAPPING and start % ALIGNMENT == 0:
        return np.memmap(file, np.uint8, "r", start, (entry.file_size,))
    memory = aligned_bytes(entry.file_size)
    file.seek(start)
    memory[:] = np.frombuffer(file.read(entry.file_size), np.uint8)
    if zlib.crc32(memory.data) != entry.CRC:
        raise zipfile.BadZipFile(f"'{name}' changed while it was read")
    memory.flags.writeable = False
    return memory


def _first_byte(file: IO[bytes], entry: zipfile.ZipInfo) -> int:
    """Return where a member's data begins: a local header's fields are not those at the end."""
    file.seek(entry.header_offset + _LENGTHS)
    name_length, extra_length = struct.unpack("<HH", file.read(4))
    return entry.header_offset + _LOCAL_HEADER + name_length + extra_length
