"""From JSON back to dataclasses, by their annotations."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

_Kind = TypeVar("_Kind")


def decode(kind: type[_Kind], value: object) -> _Kind:
    """Return a value of a dataclass from what ``dataclasses.asdict`` and JSON made of it.

    Raises:
        TypeError: if the value does not fit the annotations.
    """
    return _decode(kind, value)


def _decode(kind: Any, value: Any) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if dataclasses.is_dataclass(kind):
        return _decode_dataclass(kind, value)
    if origin in (Union, types.UnionType):
        return None if value is None else _decode(_first_fitting(arguments, value), value)
    if origin is list:
        return [_decode(arguments[0], one) for one in value]
    if origin is tuple:
        inner = arguments[:1] * len(value) if arguments[-1] is ... else arguments
        return tuple(_decode(one, part) for one, part in zip(inner, value, strict=True))
    if origin is dict:
        return {arguments[0](key): _decode(arguments[1], one) for key, one in value.items()}
    if kind is float and isinstance(value, int):
        return float(value)
    if isinstance(kind, type) and not isinstance(value, kind):
        raise TypeError(f"expected {kind.__name__}, found {value!r}")
    return value


def _first_fitting(kinds: tuple[Any, ...], value: object) -> Any:
    """Choose a plain type that the value has, or else the only one that is not None."""
    others = [kind for kind in kinds if kind is not type(None)]
    return next((k for k in others if isinstance(k, type) and isinstance(value, k)), others[0])


def _decode_dataclass(kind: Any, value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise TypeError(f"expected the fields of {kind.__name__}, found {value!r}")
    hints = get_type_hints(kind)
    return kind(**{name: _decode(hints[name], part) for name, part in value.items()})
