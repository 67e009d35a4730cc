"""Checks a run's inputs and outputs against the model's signature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.errors import InputError
from rammer_mlir.programs.signature import Signature, TensorSpec
from rammer_mlir.runtime.host_arrays import readable, writable
from rammer_mlir.support.aligned import aligned_empty

Array = NDArray[np.generic]


def check_inputs(signature: Signature, feeds: Mapping[str, Any]) -> list[Array]:
    """Return the arrays of ``feeds`` as dense NumPy arrays, in the signature's order.

    An array that is dense and aligned is not copied; other arrays are.

    Raises:
        InputError: if a name is unknown or missing, or a shape or dtype differs.
    """
    if isinstance(feeds, dict) and len(feeds) == len(signature.inputs):
        found: list[Any] = [feeds.get(spec.name) for spec in signature.inputs]
        if all(map(_is_ready, signature.inputs, found)):
            return found
    check_names(signature.inputs, feeds, "input")
    missing = [spec.name for spec in signature.inputs if spec.name not in feeds]
    if missing:
        raise InputError(f"input '{missing[0]}' is missing: give {_listing(signature.inputs)}")
    return [_checked(spec, feeds[spec.name], "input") for spec in signature.inputs]


def by_position(names: Sequence[str], arrays: Sequence[Any]) -> dict[str, Any]:
    """Return a dict from the input names ``names`` to ``arrays``, which are in the same order.

    Raises:
        InputError: if the number of arrays differs from the number of names.
    """
    if len(arrays) != len(names):
        raise InputError(f"expected {len(names)} inputs, found {len(arrays)}")
    return dict(zip(names, arrays, strict=True))


def check_outputs(
    signature: Signature, out: Mapping[str, Any], inputs: Sequence[Array]
) -> list[Array]:
    """Return an array for each output, in the signature's order: that of ``out``, else a new array.

    Raises:
        InputError: if a name is unknown, a shape or dtype differs, or an array is not writable, not
            dense, or shares memory with an input or another output.
    """
    if not out and hasattr(out, "keys"):
        return [aligned_empty(spec.shape, spec.dtype) for spec in signature.outputs]
    if isinstance(out, dict) and len(out) == len(signature.outputs):
        found: list[Any] = [out.get(spec.name) for spec in signature.outputs]
        if all(map(_is_ready, signature.outputs, found)) and _may_be_written(found, inputs):
            return found
    check_names(signature.outputs, out, "output")
    arrays: list[Array] = []
    for spec in signature.outputs:
        given = out.get(spec.name)
        if given is None:
            arrays.append(aligned_empty(spec.shape, spec.dtype))
            continue
        array = writable(given, f"output '{spec.name}'")
        _checked(spec, array, "output")
        if not isinstance(array, np.ndarray) or not array.flags.carray:
            raise InputError(
                f"output '{spec.name}': expected a writable, aligned array in row-major order, "
                "found another; allocate it with numpy.empty"
            )
        if any(np.may_share_memory(array, other) for other in (*inputs, *arrays)):
            raise InputError(
                f"output '{spec.name}': expected memory of its own, found an array that overlaps "
                "an input or another output; allocate it with numpy.empty"
            )
        arrays.append(array)
    return arrays


def check_names(specs: Sequence[TensorSpec], given: Mapping[str, Any], what: str) -> None:
    """Raise ``InputError`` if ``given`` is no mapping or has a name that is not in ``specs``.

    ``what`` is "input" or "output", the word that the error message uses.
    """
    if not hasattr(given, "keys"):
        raise InputError(
            f"{what}s: expected a mapping from names to arrays, found {type(given).__name__}; give "
            f"{_listing(specs)} by name"
        )
    for name in given:
        if all(name != spec.name for spec in specs):
            raise InputError(f"unknown {what} '{name}': expected {_listing(specs)}")


def _is_ready(spec: TensorSpec, value: Any) -> bool:
    """Return whether ``value`` is a dense, aligned array of the shape and dtype of ``spec``."""
    return (
        type(value) is np.ndarray
        and value.dtype == spec.dtype
        and value.shape == spec.shape
        and value.flags.c_contiguous
        and value.flags.aligned
    )


def _may_be_written(arrays: Sequence[Array], inputs: Sequence[Array]) -> bool:
    """Whether arrays are writable, and certainly share no memory with each other or with inputs."""
    return all(array.flags.writeable for array in arrays) and not any(
        np.may_share_memory(array, other)
        for number, array in enumerate(arrays)
        for other in (*inputs, *arrays[:number])
    )


def _checked(spec: TensorSpec, value: Any, what: str) -> Array:
    try:
        array: Array = np.asarray(readable(value, f"{what} '{spec.name}'"))
    except ValueError as error:
        raise InputError(f"{what} '{spec.name}': expected an array, found {error}") from error
    if array.dtype != spec.dtype:
        raise InputError(
            f"{what} '{spec.name}': expected dtype {spec.dtype}, found {array.dtype}; convert it "
            f"with .astype('{spec.dtype}')"
        )
    if array.shape != spec.shape:
        raise InputError(
            f"{what} '{spec.name}': expected shape {_shape(spec.shape)}, found "
            f"{_shape(array.shape)}; the model was compiled for this shape alone"
        )
    return np.require(array, requirements=("C", "A")).reshape(spec.shape)


def _listing(specs: Sequence[TensorSpec]) -> str:
    return ", ".join(f"'{spec.name}' {_shape(spec.shape)} {spec.dtype}" for spec in specs) or "none"


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"


def random_feeds(signature: Signature, seed: int) -> dict[str, Array]:
    """Return random inputs, by name; they are equal for equal seeds.

    Floats are normally distributed, integers are small and not negative.
    """
    generator = np.random.default_rng(seed)
    return {spec.name: _random(spec, generator) for spec in signature.inputs}


def _random(spec: TensorSpec, generator: np.random.Generator) -> Array:
    if spec.dtype.kind == "b":
        return generator.integers(0, 2, spec.shape).astype(spec.dtype)
    if spec.dtype.kind in "iu":
        return generator.integers(0, 8, spec.shape).astype(spec.dtype)
    if "int" in spec.dtype.name:  # int2 and int4 have another kind in NumPy
        return generator.integers(0, 2, spec.shape).astype(spec.dtype)
    return generator.standard_normal(spec.shape).astype(spec.dtype)
