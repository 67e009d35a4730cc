"""Checks the `rtask` attributes of a function's arguments and results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from rammer_mlir.bindings import ir
from rammer_mlir.frontends.mlir.interface import DIMENSIONS, DTYPE, NAME, marked_values
from rammer_mlir.passes.base import FindingsError, OperationError
from rammer_mlir.passes.ir.byte_formats import in_bytes
from rammer_mlir.passes.ir.constants import CONSTANT, PACK, PARTS, VALUE
from rammer_mlir.passes.ir.dense_values import is_resource
from rammer_mlir.passes.ir.element_types import dtype_of, element_of, named_dtype


def check_marks(function: ir.OpView) -> None:
    """Check the `rtask` attributes of a function's arguments and results.

    Raises:
        FindingsError: if attributes are malformed; contains an error for each such attribute.
    """
    operation = function.operation
    found = [
        OperationError(operation, f"{place}: '{name}': {problem}")
        for place, kind, marks in marked_values(function)
        for name, problem in _problems(kind, marks)
    ]
    if found:
        raise FindingsError(found)


def _problems(kind: ir.Type, marks: Mapping[str, ir.Attribute]) -> Iterator[tuple[str, str]]:
    for name, (is_right, form) in _FORMS.items():
        given = marks.get(name)
        if given is not None and not is_right(given):
            yield name, f"expected {form}, found {given}; change it or leave it out"
    given = marks.get(DTYPE)
    element = element_of(kind)
    if isinstance(given, ir.StringAttr) and not _is_type_for(given.value, kind):
        wanted = f"a type of NumPy with the bytes and the kind of {element}"
        yield DTYPE, f"expected {wanted}, found {given}; change it or leave it out"


def _is_type_for(name: str, kind: ir.Type) -> bool:
    """Return whether elements of the type ``kind`` can store values of the NumPy dtype ``name``.

    This holds in any of these cases:

    - The dtype and the element type are equal, or differ only in signedness.
    - The element type is an integer of 8 bits, and the dtype is stored in bytes (8-bit floats,
      int4).
    - The dtype is complex, and the last dimension of ``kind`` has real and imaginary parts.
    """
    own = dtype_of(element_of(kind))
    try:
        named = named_dtype(name)
    except (TypeError, AttributeError):
        return False
    if own is None or named == own:
        return True  # unsupported elements are refused elsewhere
    if named.kind == "c":
        is_of_pairs = isinstance(kind, ir.ShapedType) and [*kind.shape][-1:] == [2]
        return is_of_pairs and own.kind == "f" and 2 * own.itemsize == named.itemsize
    if not np.issubdtype(own, np.integer) or named.itemsize != own.itemsize:
        return False
    return bool(np.issubdtype(named, np.integer)) or in_bytes(named)


def _is_text(given: ir.Attribute) -> bool:
    return isinstance(given, ir.StringAttr)


def _is_list(of: Callable[[ir.Attribute], bool]) -> Callable[[ir.Attribute], bool]:
    return lambda given: isinstance(given, ir.ArrayAttr) and all(map(of, given))


def _is_step(given: ir.Attribute) -> bool:
    return isinstance(given, ir.DenseI64ArrayAttr | ir.DenseElementsAttr)


def _is_value(given: ir.Attribute) -> bool:
    return isinstance(given, ir.DenseElementsAttr) or is_resource(given)


_FORMS: dict[str, tuple[Callable[[ir.Attribute], bool], str]] = {
    NAME: (_is_text, "a string"),
    DTYPE: (_is_text, "a string"),
    CONSTANT: (_is_text, "a string"),
    DIMENSIONS: (_is_list(_is_text), "a list of strings"),
    VALUE: (_is_value, "dense<...> or dense_resource<...>"),
    PACK: (_is_list(_is_step), "a list of array<i64: ...>"),
    PARTS: (_is_list(lambda each: isinstance(each, ir.DictAttr)), "a list of dictionaries"),
}
"""For each attribute name: a predicate of valid values, and a description of these."""
