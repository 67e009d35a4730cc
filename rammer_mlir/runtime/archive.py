"""Writes ZIP archives of uncompressed, 64-byte aligned members; maps large members into memory."""

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
"""Sizes of ZIP records, and the signature of the end record, which is last without a comment."""

_LENGTHS = 26
"""Offset of the lengths of name and extra fields in a local header."""

_LARGE, _LARGE_FIELD = 1 << 31, 20
"""Size in bytes from which on a member gets a ZIP64 field, and the size of that field."""

_PADDING_FIELD = 0xD935
"""ID of an extra field that only aligns the data after it (as used by Android's zipalign)."""

_WORTH_MAPPING = 1 << 20
"""Number of bytes up to which members are read instead of mapped.

Reading them is as fast as mapping, and safe from later changes of the file.
"""


Pieces = Sequence[bytes | memoryview]
"""A member's content, as pieces to concatenate."""


def size_of(pieces: Pieces) -> int:
    """Return the total number of bytes of ``pieces``, which together are a member's content."""
    return sum(memoryview(piece).nbytes for piece in pieces)


def add_member(archive: zipfile.ZipFile, file: IO[bytes], name: str, pieces: Pieces) -> None:
    """Append a member ``name`` to an archive, aligned to 64 bytes in ``file``.

    The member's content is the concatenation of ``pieces``.
    """
    entry = zipfile.ZipInfo(name)
    is_large = size_of(pieces) >= _LARGE
    # The extra fields are 4 bytes of padding header, and the ZIP64 field if needed.
    fixed = file.tell() + _LOCAL_HEADER + len(name) + 4 + is_large * _LARGE_FIELD
    padding = -fixed % ALIGNMENT
    entry.extra = struct.pack("<HH", _PADDING_FIELD, padding) + bytes(padding)
    with archive.open(entry, "w", force_zip64=is_large) as member:
        for piece in pieces:
            member.write(piece)


def is_as_written(archive: zipfile.ZipFile, file: IO[bytes]) -> bool:
    """Return whether an archive's members are uncompressed, and the archive fills the whole file.

    The first member must begin at the first byte, and the archive must end, without a comment, at
    the last byte. Bytes between the members are not checked.
    """
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
    """Return the bytes of an uncompressed member, aligned to 64 bytes in memory.

    Args:
        archive: the archive in ``file``.
        file: the open file.
        name: name of the member.
        mapped: memory-map large members; later changes of the file then change the bytes.

    Raises:
        BadZipFile: if the CRC of bytes that were read is wrong.
    """
    entry = archive.getinfo(name)
    start = _first_byte(file, entry)
    # Files of other writers may be unaligned; such members are copied.
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
    """Return the byte offset of a member's data in the file.

    The offset follows from the member's local header. The archive's central directory does not have
    the length of the local header's extra fields.
    """
    file.seek(entry.header_offset + _LENGTHS)
    name_length, extra_length = struct.unpack("<HH", file.read(4))
    return entry.header_offset + _LOCAL_HEADER + name_length + extra_length
