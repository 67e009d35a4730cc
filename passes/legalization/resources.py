"""Converts ``dense_resource`` constants to dense constants, which NumPy can read."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rammer_mlir.bindings import ir
from rammer_mlir.passes.base import FindingsError, OperationError
from rammer_mlir.passes.ir.dense_values import (
    dense_attribute,
    is_resource,
    resource_name,
    resources_of,
)
from rammer_mlir.passes.ir.element_types import dtype_of, element_of
from rammer_mlir.passes.ir.traversal import operations_named


def read_resources(module: ir.Module) -> None:
    """Replace ``dense_resource`` constants by dense constants.

    Complex constants remain unchanged.

    Raises:
        FindingsError: if a constant is sparse, its values were elided when the module was printed,
            or its resource has a wrong size in bytes; the error lists these constants.
    """
    found = [
        op
        for op in operations_named(
            module.operation, "arith.constant", "stablehlo.constant", "tosa.const"
        )
        for name in _attribute_names(op)
        if not _is_complex(op) and is_resource(op.attributes[name])
    ]
    values = resources_of(module) if found else {}
    problems = list(_sparse_constants(module))
    for op in found:
        (name,) = _attribute_names(op)
        problem = _read(op, name, values.get(resource_name(op.attributes[name])))
        problems += [OperationError(op, problem)] if problem else []
    if problems:
        raise FindingsError(problems)


def _sparse_constants(module: ir.Module) -> Iterator[OperationError]:
    for op in operations_named(module.operation, "arith.constant", "stablehlo.constant"):
        # The bindings have no class for them, so the text tells.
        if not _is_complex(op) and str(op.attributes["value"]).startswith("sparse<"):
            yield OperationError(op, "expected dense values, found sparse ones; write dense<...>")


def _is_complex(op: ir.Operation) -> bool:
    """Whether the elements of a constant are complex.

    ``read_resources`` leaves complex constants unchanged, because the bindings have no class for
    complex attributes.
    """
    return isinstance(element_of(op.results[0].type), ir.ComplexType)


def _attribute_names(op: ir.Operation) -> list[str]:
    return [name for name in ("value", "values") if name in op.attributes]


def _read(op: ir.Operation, name: str, content: bytes | None) -> str:
    """Replace the resource in attribute ``name`` of a constant by a dense attribute of its content.

    Return an error message, or an empty string if there is no error. ``content`` is None if the
    module has no content for the resource. A constant of an unsupported type remains unchanged.
    """
    kind = ir.RankedTensorType(op.results[0].type)
    dtype = dtype_of(kind.element_type)
    if dtype is None:
        return ""  # refused for its type later on
    if content is None:
        return (
            "expected a value, found one that was left out when it was printed; print the whole "
            "IR (without --mlir-elide-elementsattrs-if-larger)"
        )
    size = int(np.prod(kind.shape, dtype=np.int64)) * dtype.itemsize
    if len(content) != size and len(content) != dtype.itemsize:
        return f"expected a resource of {size} bytes, found {len(content)}; print the IR again"
    array = np.frombuffer(content, dtype)
    array = (
        array.reshape(kind.shape) if len(content) == size else np.broadcast_to(array, kind.shape)
    )
    op.attributes[name] = dense_attribute(array, kind.element_type)
    return ""
