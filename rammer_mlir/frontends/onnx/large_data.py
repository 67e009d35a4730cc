"""Parses serialized models without the data of their large initializers, to save memory.

Parsing a whole model needs three copies of its weights: the file's bytes, the parsed model, and an
array of each weight. Instead, this module scans the protobuf encoding to find the data, parses the
model without the data, and reads each weight's data separately. A file with an unusual encoding is
parsed as a whole.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO

WORTH_SPLITTING = 16 << 20
"""Model size in bytes from which scanning is worthwhile."""

_LARGE = 64 << 10
"""Initializer size in bytes from which its data stays in the file."""

_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9
"""Field numbers in a model, a graph, and a tensor."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
"""Wire types of field values."""

_HEAD = 20
"""Largest number of bytes of the key and length of a field."""


class NotPlainError(Exception):
    """Raised if this module cannot split a serialized model, which is then parsed as a whole.

    The file's encoding is invalid, or is valid protobuf that protobuf's serializer would not write.
    """


@dataclass(frozen=True)
class Place:
    """The bytes of a file from offset ``begin`` to ``end`` (exclusive)."""

    begin: int
    end: int


DataPlaces = Mapping[int, Place]
"""Byte ranges in a file of the raw data of initializers, by index of the initializer."""


@dataclass(frozen=True)
class _Field:
    """A field of a protobuf message in a file, with offsets in bytes.

    Attributes:
        number: field number.
        kind: wire type.
        begin: offset of the field's key.
        value: offset of the content of a message, text or bytes.
        end: offset of the end (exclusive).
    """

    number: int
    kind: int
    begin: int
    value: int
    end: int


def split(file: IO[bytes]) -> tuple[bytes, DataPlaces]:
    """Return a serialized model without its large initializers' data, and where this data is.

    The second result has the byte range in ``file`` of each large initializer's data.

    Raises:
        NotPlainError: if the model has to be parsed as a whole.
    """
    whole = Place(0, file.seek(0, os.SEEK_END))
    model = list(_fields(file, whole))
    graphs = [field for field in model if field.number == _GRAPH]
    if len(graphs) != 1 or graphs[0].kind != _BYTES:
        raise NotPlainError
    (graph,) = graphs
    content, places = _without_data(file, graph)
    return b"".join(
        [
            _read(file, Place(0, graph.begin)),
            _message(_GRAPH, content),
            _read(file, Place(graph.end, whole.end)),
        ]
    ), places


def _without_data(file: IO[bytes], graph: _Field) -> tuple[bytes, DataPlaces]:
    """Return a serialized graph without its large initializers' data, and where this data is.

    The second result has the byte range in ``file`` of each large initializer's data.
    """
    parts: list[bytes] = []
    places: dict[int, Place] = {}
    copied, number = graph.value, 0
    for field in _fields(file, Place(graph.value, graph.end)):
        if field.number != _INITIALIZER:
            continue
        if field.kind == _BYTES and field.end - field.value >= _LARGE:
            raw = _raw_data(file, field)
            if raw is not None:
                parts.append(_read(file, Place(copied, field.begin)))
                tensor = [Place(field.value, raw.begin), Place(raw.end, field.end)]
                parts.append(_message(_INITIALIZER, b"".join(_read(file, p) for p in tensor)))
                places[number] = Place(raw.value, raw.end)
                copied = field.end
        number += 1
    parts.append(_read(file, Place(copied, graph.end)))
    return b"".join(parts), places


def _raw_data(file: IO[bytes], tensor: _Field) -> _Field | None:
    """Return the field ``raw_data`` of a tensor; None if the tensor does not have the field.

    Raise NotPlainError if the tensor has several such fields.
    """
    fields = _fields(file, Place(tensor.value, tensor.end))
    found = [field for field in fields if field.number == _RAW_DATA]
    if len(found) > 1 or any(field.kind != _BYTES for field in found):
        raise NotPlainError
    return found[0] if found else None


def _fields(file: IO[bytes], message: Place) -> Iterator[_Field]:
    """Yield a message's fields in the file's order; raise NotPlainError for a malformed field."""
    begin = message.begin
    while begin < message.end:
        file.seek(begin)
        head = file.read(_HEAD)
        key, used = _varint(head, 0)
        value = begin + used
        if key & 7 == _BYTES:
            length, used = _varint(head, used)
            value = begin + used
            end = value + length
        elif key & 7 == _VARINT:
            end = begin + _varint(head, used)[1]
        elif key & 7 in (_FIXED32, _FIXED64):
            end = value + (4 if key & 7 == _FIXED32 else 8)
        else:
            raise NotPlainError
        if end > message.end:
            raise NotPlainError
        yield _Field(key >> 3, key & 7, begin, value, end)
        begin = end


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Return the varint at byte ``position`` of ``data``, and the position after the varint."""
    value = 0
    for index, byte in enumerate(data[position : position + 10]):
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value, position + index + 1
    raise NotPlainError


def _message(number: int, content: bytes) -> bytes:
    """Return the encoding of a message as a field of another message.

    ``number`` is the field's number, and ``content`` the serialized message.
    """
    return b"".join([_encoded(number << 3 | _BYTES), _encoded(len(content)), content])


def _encoded(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _read(file: IO[bytes], place: Place) -> bytes:
    file.seek(place.begin)
    return file.read(place.end - place.begin)
