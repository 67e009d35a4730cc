"""Computes input shapes from the sizes that users request for open dimensions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from math import prod
from numbers import Integral
from typing import cast

from rammer_mlir.errors import OptionError, ShapeError
from rammer_mlir.programs.dimensions import (
    PYTHON,
    OpenSignature,
    Shape,
    Shapes,
    bind,
    describe_open,
)

Given = int | Iterable[int]
"""A size of a dimension, or several sizes."""


def sizes_of(symbol: str, given: object) -> tuple[int, ...]:
    """Return the distinct sizes in ``given``, in the given order.

    Args:
        symbol: name of the open dimension, for messages.
        given: a size, or an iterable of sizes.

    Raises:
        OptionError: if a size is not an integer of at least 0, or ``given`` has no sizes.
    """
    values: list[object] = [given]
    if isinstance(given, Iterable) and not isinstance(given, str):
        values = list(cast("Iterable[object]", given))
    wrong = [value for value in values if not _is_size(value)]
    if wrong or not values:
        found = repr(wrong[0]) if wrong else "none"
        raise OptionError(f"dims: expected integers of at least 0 for '{symbol}', found {found}")
    return tuple(dict.fromkeys(int(cast(int, value)) for value in values))


def _is_size(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, Integral) and int(value) >= 0


def joined_sizes(dims: object, sizes: Mapping[str, Given]) -> dict[str, Given]:
    """Return the sizes in ``dims``, a mapping or None, merged with the keyword arguments ``sizes``.

    Raises:
        OptionError: if ``dims`` is neither a mapping nor None, or a dimension is in both arguments.
    """
    named = _mapping("dims", {} if dims is None else dims)
    for symbol in named.keys() & sizes.keys():
        raise OptionError(f"dims: '{symbol}' is given twice; give it in dims or as a keyword")
    return {**cast("Mapping[str, Given]", named), **sizes}


def _mapping(name: str, given: object) -> Mapping[str, object]:
    if not isinstance(given, Mapping):
        raise OptionError(f"{name}: expected a dict by name, found {given!r}")
    return cast("Mapping[str, object]", given)


def bindings_of(
    signature: OpenSignature,
    dims: Mapping[str, Given],
    shapes: Mapping[str, Sequence[int]] | None,
    limit: int,
) -> list[Shapes]:
    """Return the shapes of all inputs for each combination of the given sizes.

    Args:
        signature: the model's inputs, with symbols in their shapes.
        dims: a size or several sizes for each symbol.
        shapes: shapes of some inputs, by name. An input's shape determines the sizes of the symbols
            that the signature has for this input.
        limit: greatest number of combinations.

    Raises:
        OptionError: if a dimension is unknown, lacks a size or has an invalid size, ``shapes`` is
            not a mapping, or there are more combinations than the limit.
        ShapeError: if ``shapes`` do not fit the signature, or contradict ``dims``.
    """
    sizes = {symbol: sizes_of(symbol, given) for symbol, given in dims.items()}
    for symbol in sizes:
        if symbol not in signature.symbols:
            known = ", ".join(f"'{known}'" for known in signature.symbols) or "none"
            raise OptionError(
                f"dims: unknown dimension '{symbol}': the model's open dimensions are {known}"
            )
    number = prod(map(len, sizes.values()))
    if number > limit:
        raise OptionError(
            f"prepare: expected at most {limit} specializations, as many as are kept in memory, "
            f"found {number}; give fewer sizes, or compile with specializations={number}"
        )
    given = _checked_shapes(signature, shapes or {})
    combinations = product(*sizes.values())
    return [_bound(signature, dict(zip(sizes, each, strict=True)), given) for each in combinations]


def _checked_shapes(
    signature: OpenSignature, shapes: Mapping[str, Sequence[int]]
) -> dict[str, Shape]:
    _mapping("shapes", shapes)
    names = [tensor.name for tensor in signature.inputs]
    for name, shape in shapes.items():
        if name not in names:
            known = ", ".join(f"'{known}'" for known in names)
            raise OptionError(f"shapes: unknown input '{name}': the model's inputs are {known}")
        if not isinstance(cast("object", shape), Iterable) or not all(map(_is_size, shape)):
            raise OptionError(
                f"shapes: expected integers of at least 0 for '{name}', found {shape!r}"
            )
    return {name: tuple(map(int, shape)) for name, shape in shapes.items()}


def _bound(signature: OpenSignature, dims: Mapping[str, int], shapes: Shapes) -> Shapes:
    bound = bind(signature, shapes, dims)
    if bound.problems:
        raise ShapeError(f"{'; '.join(bound.problems)}: give each dimension one size")
    rest = signature.with_sizes(bound.sizes)
    unranked = set(rest.unranked) - shapes.keys()
    if rest.symbols or unranked:
        left = OpenSignature(
            tuple(t for t in rest.inputs if t.symbols or t.name in unranked), rest.outputs
        )
        raise OptionError(f"{describe_open(left)}: expected a size, found none; give {_ask(left)}")
    return signature.shapes(bound.sizes, shapes)


def _ask(signature: OpenSignature) -> str:
    return PYTHON.ask(signature)
