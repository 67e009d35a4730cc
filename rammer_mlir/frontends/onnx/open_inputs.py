"""Finds inputs with open dimensions, and binds sizes to these dimensions.

In an ONNX model, an open dimension has a name instead of a size, no size at all, or the size -1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx

from rammer_mlir.errors import ModelError, ShapeError
from rammer_mlir.frontends.onnx.model import Model
from rammer_mlir.frontends.onnx.shapes import give_shapes
from rammer_mlir.frontends.onnx.tensors import Array, dtype_of, tensor_type
from rammer_mlir.programs.dimensions import (
    PYTHON,
    HostType,
    OpenSignature,
    OpenTensor,
    Shape,
    Shapes,
    Sizes,
    Wording,
    bind,
    describe_open,
)

_OPEN = -1
"""Size that exporters write for a dimension of any size."""

_NO_NAMES = ("?", "-1", "None")
"""Placeholder names for dimensions without name; two of them may have different sizes."""


def clear_unknown_sizes(graph: onnx.GraphProto, name: str) -> None:
    """Remove the placeholders that exporters write for unknown sizes, in place.

    The placeholders are the size -1 and names such as ``?`` in the shapes of inputs and outputs.
    Without its placeholder, a dimension is open and has no name. ``name`` is the model's name in
    messages.

    Raises:
        ModelError: if a dimension has another negative size.
    """
    for value in (*graph.input, *graph.output):
        for position, dim in enumerate(tensor_type(value.type).shape.dim):
            if dim.dim_value < _OPEN:
                raise ModelError(
                    f"{name}: dimension {position} of '{value.name}' is {dim.dim_value}: expected "
                    "a size, or -1 for an open dimension"
                )
            if dim.dim_value == _OPEN or dim.dim_param in _NO_NAMES:
                dim.Clear()


def open_signature(model: Model) -> OpenSignature:
    """Return a model's inputs and outputs, with a symbol (a name) for each open dimension.

    The symbol of a dimension without a name is its position, such as ``x[0]``.
    """
    values = (*model.inputs, *model.graph.output)
    taken = {dim.dim_param for value in values for dim in value.type.tensor_type.shape.dim}
    inputs = tuple(_tensor(value, taken) for value in model.inputs)
    return OpenSignature(inputs, tuple(_tensor(value, taken) for value in model.graph.output))


def _tensor(value: onnx.ValueInfoProto, taken: set[str]) -> OpenTensor:
    if value.type.HasField("sequence_type") or value.type.HasField("optional_type"):
        host_type = _host_type(value, taken)
        return OpenTensor(value.name, None, None, is_tensor=False, host_type=host_type)
    tensor = value.type.tensor_type
    return OpenTensor(value.name, _shape(value.name, tensor, taken), _dtype(tensor.elem_type))


def _host_type(value: onnx.ValueInfoProto, taken: set[str]) -> HostType | None:
    """Return the type of a sequence or optional value; None if its elements are no tensors."""
    is_optional = value.type.HasField("optional_type")
    inner = value.type.optional_type.elem_type if is_optional else value.type
    is_sequence = inner.HasField("sequence_type")
    tensor = (inner.sequence_type.elem_type if is_sequence else inner).tensor_type
    dtype = _dtype(tensor.elem_type)
    if dtype is None:
        return None
    return HostType(is_sequence, is_optional, _shape(value.name, tensor, taken), dtype)


def _shape(
    name: str, tensor: onnx.TypeProto.Tensor, taken: set[str]
) -> tuple[int | str, ...] | None:
    if not tensor.HasField("shape"):
        return None
    dims = enumerate(tensor.shape.dim)
    return tuple(_dimension(name, position, dim, taken) for position, dim in dims)


def _dimension(
    name: str, position: int, dim: onnx.TensorShapeProto.Dimension, taken: set[str]
) -> int | str:
    if dim.HasField("dim_value") and dim.dim_value != _OPEN:
        return dim.dim_value
    symbol = dim.dim_param or f"{name}[{position}]"
    while not dim.dim_param and symbol in taken:  # the model uses this name for another dimension
        symbol += "'"
    return symbol


def _dtype(elem_type: int) -> np.dtype[np.generic] | None:
    try:
        return dtype_of(elem_type)
    except (KeyError, ValueError, TypeError):  # undefined types are refused later
        return None


@dataclass(frozen=True)
class Fixed:
    """The inputs and outputs of a model after some or all open dimensions were bound to sizes.

    Attributes:
        signature: inputs and outputs, with symbols for dimensions that are still open.
        shapes: static shapes, by input name, of the inputs that had open dimensions.
    """

    signature: OpenSignature
    shapes: Shapes


def fix_inputs(model: Model, shapes: Shapes, dims: Sizes, wording: Wording = PYTHON) -> Fixed:
    """Bind sizes to open dimensions of a model's inputs.

    Args:
        model: modified in place.
        shapes: shapes of inputs, by input name. Each size also binds the symbol of its dimension.
        dims: sizes by symbol; a size applies to all dimensions of this symbol in all inputs.
        wording: whether messages name Python arguments or command-line options.

    Raises:
        ShapeError: if a name is unknown, or sizes contradict the model or each other.
    """
    signature = open_signature(model)
    check_symbols(signature, dims, wording)
    give_shapes(model, shapes)
    given_as = "dims" if wording.is_python else "--dim"
    bound = bind(_as_given(signature, shapes), shapes, dims, given_as)
    if bound.problems:
        raise ShapeError(f"{'; '.join(bound.problems)}: give each dimension one size")
    fixed = signature.with_sizes(bound.sizes)
    for value, tensor in zip(model.inputs, fixed.inputs, strict=True):
        for dim, size in zip(value.type.tensor_type.shape.dim, tensor.shape or (), strict=False):
            if isinstance(size, int) and not dim.HasField("dim_value"):
                dim.dim_value = size
    signature_now = OpenSignature(open_signature(model).inputs, fixed.outputs)
    return Fixed(signature_now, {**_changed(signature, fixed), **shapes})


def make_constant(model: Model, name: str, value: Array) -> None:
    """Replace the input ``name`` of a model by the constant ``value``, in place."""
    kept = [value for value in model.graph.input if value.name != name]
    copies = [onnx.ValueInfoProto.FromString(each.SerializeToString()) for each in kept]
    del model.graph.input[:]
    model.graph.input.extend(copies)
    model.add_constant(name, value)


def _as_given(signature: OpenSignature, shapes: Shapes) -> OpenSignature:
    """Return ``signature`` with static sizes of inputs replaced by the sizes that ``shapes`` gives.

    ``shapes`` may thus change a static size of the model, for example the batch size. Open
    dimensions keep their symbols; they are bound later.
    """
    return replace(
        signature,
        inputs=tuple(
            tensor
            if tensor.shape is None or tensor.name not in shapes
            else replace(tensor, shape=_known_as_given(tensor.shape, shapes[tensor.name]))
            for tensor in signature.inputs
        ),
    )


def _known_as_given(shape: tuple[int | str, ...], given: Shape) -> tuple[int | str, ...]:
    pairs = zip(shape, given, strict=True)
    return tuple(size if isinstance(dim, int) else dim for dim, size in pairs)


def _changed(before: OpenSignature, after: OpenSignature) -> dict[str, Shape]:
    return {
        new.name: tuple(size for size in new.shape if isinstance(size, int))
        for old, new in zip(before.inputs, after.inputs, strict=True)
        if old.symbols and new.shape is not None and not new.symbols
    }


def check_symbols(signature: OpenSignature, dims: Iterable[str], wording: Wording) -> None:
    """Check that all symbols in ``dims`` are open dimensions of the model.

    Raises:
        ShapeError: with the unknown symbols, and the model's open dimensions.
    """
    unknown = [symbol for symbol in dims if symbol not in signature.symbols]
    if unknown:
        given = "dims: " if wording.is_python else "--dim: "
        known = ", ".join(f"'{symbol}'" for symbol in signature.symbols) or "none"
        raise ShapeError(
            f"{given}unknown dimension {_listing(unknown)}: the model's open dimensions are {known}"
        )


def _listing(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def require_fixed(signature: OpenSignature, wording: Wording) -> None:
    """Raise an error if inputs have open dimensions.

    Raises:
        ShapeError: with all open dimensions, and the arguments that bind them.
    """
    if signature.is_open:
        raise ShapeError(
            f"the model leaves {describe_open(signature)} open: give {wording.ask(signature)}"
        )
