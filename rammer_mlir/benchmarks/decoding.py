"""Convert parsed JSON into dataclasses by the annotations of their fields."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping, Sequence
from typing import TypeVar, Union, cast, get_args, get_origin, get_type_hints

_Kind = TypeVar("_Kind")


def decode(kind: type[_Kind], value: object) -> _Kind:
    """Return ``value``, parsed from JSON, as an object of type ``kind``, usually a dataclass.

    This is the inverse of ``dataclasses.asdict`` followed by JSON. The annotations of the dataclass
    fields give the types of the parts.

    Raises:
        TypeError: if the value does not fit the annotations.
    """
    return cast(_Kind, _decode(kind, value))


def _decode(kind: object, value: object) -> object:
    origin, arguments = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _decode_dataclass(kind, value)
    if origin in (Union, types.UnionType):
        return None if value is None else _decode(_first_fitting(arguments, value), value)
    if origin is list:
        return [_decode(arguments[0], one) for one in _items(value)]
    if origin is tuple:
        parts = _items(value)
        inner = arguments[:1] * len(parts) if arguments[-1] is ... else arguments
        return tuple(_decode(one, part) for one, part in zip(inner, parts, strict=True))
    if origin is dict:
        return {
            arguments[0](key): _decode(arguments[1], one) for key, one in _entries(value).items()
        }
    if kind is float and isinstance(value, int):
        return float(value)
    if isinstance(kind, type) and not isinstance(value, kind):
        raise TypeError(f"expected {kind.__name__}, found {value!r}")
    return value


def _items(value: object) -> Sequence[object]:
    if not isinstance(value, list | tuple):
        raise TypeError(f"expected a list, found {value!r}")
    return cast(Sequence[object], value)


def _entries(value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise TypeError(f"expected an object, found {value!r}")
    return cast(Mapping[str, object], value)


def _first_fitting(kinds: tuple[object, ...], value: object) -> object:
    """Return the member of a union to which ``value`` is converted.

    The result is the first class in ``kinds``, the members of the union, of which ``value`` is an
    instance. If there is no such class, the result is the first member other than None.
    """
    others = [kind for kind in kinds if kind is not type(None)]
    return next((k for k in others if isinstance(k, type) and isinstance(value, k)), others[0])


def _decode_dataclass(kind: type, value: object) -> object:
    if not isinstance(value, Mapping):
        raise TypeError(f"expected the fields of {kind.__name__}, found {value!r}")
    hints = get_type_hints(kind)
    return kind(**{name: _decode(hints[name], part) for name, part in _entries(value).items()})
