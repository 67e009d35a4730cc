"""Converts passes to and from the text of their options, such as ``rows=3 policy=wavefront``."""

from __future__ import annotations

import dataclasses
from typing import Any, get_type_hints

from rammer_mlir.errors import PassError
from rammer_mlir.passes.base import Pass
from rammer_mlir.support.text_options import values_of_text


def create_pass(kind: type[Pass], options: str) -> Pass:
    """Create a pass of class ``kind`` from its options in pipeline syntax, such as ``a=1 b=2``.

    Underscores in the name of an option may be written as dashes.

    Raises:
        PassError: if an option is unknown, given twice or malformed.
    """
    hints = get_type_hints(kind)
    kinds = {f.name: hints[f.name] for f in dataclasses.fields(kind)}
    return kind(**values_of_text(kind.name, options, kinds, PassError))


def describe_options(kind: type[Pass], given: Pass | None = None) -> str:
    """Return all options of a pass and their values in pipeline syntax, such as ``a=1 b=2``.

    The values are those of the pass ``given``; if it is None, they are the defaults.
    """
    return " ".join(
        f"{field.name.replace('_', '-')}="
        f"{_write(field.default if given is None else getattr(given, field.name))}"
        for field in dataclasses.fields(kind)
    )


def describe_default(field: dataclasses.Field[Any]) -> str:
    """Return the default value of an option in pipeline syntax; ``field`` is the option's field."""
    return _write(field.default)


def _write(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(str(item) for item in value)
    return str(value)
