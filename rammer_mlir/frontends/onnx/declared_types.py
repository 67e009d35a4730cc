"""Compares the types that a model declares for its values with the inferred types.

The declared types are removed before shape inference, because shape inference would adopt wrong
declared shapes without a check. If an output's declared shape were too large, some of its elements
would be uninitialized memory.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import onnx

from rammer_mlir.errors import ModelError, ModelWarning
from rammer_mlir.frontends.onnx.tensors import static_shape, type_text, value_infos

Declared = Mapping[str, onnx.TypeProto]
"""Types that a model declares for its values, by name."""

_MOST_NAMED = 3
"""Most values that a warning names: changed inputs make many declarations wrong."""


def take_declared(graph: onnx.GraphProto) -> Declared:
    """Remove the declared types of a graph's intermediate values and outputs, in place.

    Return the removed types by value name. Inputs keep their types.
    """
    declared = {
        value.name: onnx.TypeProto.FromString(value.type.SerializeToString())
        for value in (*graph.value_info, *graph.output)
    }
    for value in graph.output:
        value.ClearField("type")
    del graph.value_info[:]
    return declared


def check_declared(graph: onnx.GraphProto, declared: Declared, warned: set[str]) -> None:
    """Compare the inferred, static types of a graph's values with the declared types.

    A declared dimension that is a name or 0 matches any size. If shapes differ otherwise, a warning
    is issued, as in ONNX Runtime, and the inferred shapes are used.

    Args:
        graph: a graph with inferred shapes.
        declared: types declared by the model, by value name.
        warned: names of the values whose types were found to differ in earlier calls. A warning is
            issued only if the types of a value that is not in ``warned`` differ; the names of all
            values whose types differ are then added to ``warned``.

    Raises:
        ModelError: for the first output with a wrong declared dtype, because callers rely on it.
    """
    for value in graph.output:
        if not _has_type(value, declared[value.name].tensor_type):
            raise ModelError(
                f"output {_difference(value, declared)}: correct the declaration or the nodes"
            )
    found = _differences(graph, declared)
    is_news = bool(found.keys() - warned)
    warned.update(found)
    if is_news:
        more = f", and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
        text = "; ".join(list(found.values())[:_MOST_NAMED])
        warnings.warn(f"{text}{more}: what is computed counts", ModelWarning, stacklevel=2)


def _differences(graph: onnx.GraphProto, declared: Declared) -> dict[str, str]:
    """Return a clause of a message for each value whose inferred and declared types differ.

    A clause states both types; the dictionary has the clauses by value name.
    """
    outputs = {value.name for value in graph.output}
    found: dict[str, str] = {}
    for name, value in value_infos(graph).items():
        expected = declared[name].tensor_type if name in declared else None
        if expected is None or (_has_type(value, expected) and _has_shape(value, expected)):
            continue
        kind = "output" if name in outputs else "value"
        found[name] = f"{kind} {_difference(value, declared)}"
    return found


def _difference(value: onnx.ValueInfoProto, declared: Declared) -> str:
    return (
        f"'{value.name}': the model declares {type_text(declared[value.name].tensor_type)}, its "
        f"nodes compute {type_text(value.type.tensor_type)}"
    )


def _has_type(value: onnx.ValueInfoProto, expected: onnx.TypeProto.Tensor) -> bool:
    return expected.elem_type in (0, value.type.tensor_type.elem_type)


def _has_shape(value: onnx.ValueInfoProto, expected: onnx.TypeProto.Tensor) -> bool:
    shape = static_shape(value)
    if shape is None or not expected.HasField("shape"):
        return True
    dims = expected.shape.dim
    return len(dims) == len(shape) and all(
        dim.dim_value in (0, size) for dim, size in zip(dims, shape, strict=True)
    )
