"""Describes an exported program's arguments and results: named tensors in nested structures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from rammer_mlir.frontends.pytorch.package import pytorch


@dataclass(frozen=True)
class Constant:
    """A leaf of nested arguments or results that is not a tensor.

    Its ``value`` at export is a constant of the program.
    """

    value: object


Leaf = str | Constant
"""A leaf of nested arguments or results: the name of a tensor, or a constant."""


@dataclass(frozen=True)
class Range:
    """The valid sizes of an open dimension of a program: ``least`` to ``most``, inclusive.

    ``most`` is None if there is no upper bound.
    """

    least: int
    most: int | None

    def __str__(self) -> str:
        """Return the range as text, such as "2 or more" or "1 to 8"."""
        return f"{self.least} or more" if self.most is None else f"{self.least} to {self.most}"


@dataclass(frozen=True)
class ResultType:
    """The type of a tensor that a program returns, as ``torch.export`` infers it.

    Attributes:
        shape: sizes; None for an open dimension.
        dtype: torch's name of the element type, such as ``float32``.
    """

    shape: tuple[int | None, ...]
    dtype: str

    @property
    def is_complex(self) -> bool:
        """Whether the elements are complex numbers.

        An ONNX model represents a complex number as a pair of real numbers.
        """
        return self.dtype.startswith("complex")


@dataclass(frozen=True)
class Interface:
    """The nested structure of a program's arguments and results.

    A leaf of the structure is the name of a tensor, or a constant.

    Attributes:
        inputs: leaves of the flattened arguments.
        outputs: leaves of the flattened result.
        in_spec: torch's structure (TreeSpec) of positional and keyword arguments.
        out_spec: torch's structure (TreeSpec) of the result.
        symbols: symbols of the open dimensions of each tensor input, by input name and then by
            index of the dimension.
        ranges: valid sizes of each symbol.
        results: types of the tensor outputs, by name.
    """

    inputs: tuple[Leaf, ...]
    outputs: tuple[Leaf, ...]
    in_spec: Any
    out_spec: Any
    symbols: Mapping[str, Mapping[int, str]]
    ranges: Mapping[str, Range]
    results: Mapping[str, ResultType]


def interface_of(program: Any, dynamic_shapes: object) -> tuple[Interface, dict[str, str]]:
    """Return a program's interface, and the new names of torch's symbols of open dimensions.

    The second result maps a symbol, such as ``s0``, to its new name: the name of the
    ``torch.export.Dim`` in ``dynamic_shapes``. If the dimension has no such name, the new name is
    the dimension's first occurrence, such as ``x[0]``.
    """
    torch = pytorch()
    signature = program.graph_signature
    inputs = tuple(
        spec.arg.name if hasattr(spec.arg, "name") and not _is_constant(spec.arg) else
        Constant(spec.arg.value)
        for spec in signature.input_specs
        if spec.kind is torch.export.graph_signature.InputKind.USER_INPUT
    )  # fmt: skip
    tensors = [leaf for leaf in inputs if isinstance(leaf, str)]
    names = _symbol_names(program, tensors, inputs, dynamic_shapes)
    shapes = dict(_open_shapes(program, set(tensors)))
    symbols = {
        tensor: {at: names[symbol] for at, symbol in shapes[tensor].items() if symbol in names}
        for tensor in tensors
        if tensor in shapes
    }
    ranges = {
        names[str(symbol)]: _range(found)
        for symbol, found in program.range_constraints.items()
        if str(symbol) in names
    }
    spec = program.call_spec
    outputs = _outputs(program, set(tensors))
    results = dict(_result_types(program, outputs))
    return Interface(inputs, outputs, spec.in_spec, spec.out_spec, symbols, ranges, results), names


def _is_constant(argument: object) -> bool:
    return type(argument).__name__ == "ConstantArgument"


def _range(found: Any) -> Range:
    """Convert torch's range of a symbol's values to a range of sizes, at least 0."""
    least = int(found.lower) if found.lower.is_Integer else 0
    return Range(max(least, 0), int(found.upper) if found.upper.is_Integer else None)


def _open_shapes(program: Any, names: set[str]) -> Iterator[tuple[str, dict[int, str]]]:
    """Yield the name of each tensor input, with torch's symbols of the tensor's open dimensions.

    The yielded dictionary has the symbols by index of the dimension. ``names`` are the names of the
    program's tensor inputs, without parameters and buffers.
    """
    torch = pytorch()
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if node.op == "placeholder" and node.name in names and isinstance(value, torch.Tensor):
            yield node.name, {
                at: str(size) for at, size in enumerate(value.shape)
                if isinstance(size, torch.SymInt)
            }  # fmt: skip


def _symbol_names(
    program: Any, tensors: Sequence[str], leaves: Sequence[Leaf], dynamic_shapes: object
) -> dict[str, str]:
    shapes = dict(_open_shapes(program, set(tensors)))
    given = dict(zip(leaves, _named_dimensions(program, dynamic_shapes), strict=False))
    names: dict[str, str] = {}
    for tensor in tensors:
        for at, symbol in shapes.get(tensor, {}).items():
            if symbol.isidentifier():
                name = (given.get(tensor) or {}).get(at, f"{tensor}[{at}]")
                if symbol not in names or names[symbol].endswith("]"):
                    names[symbol] = name
    return names


def _named_dimensions(program: Any, dynamic_shapes: object) -> list[dict[int, str]]:
    """Return the user's names of open dimensions, for each leaf of the flattened arguments.

    A leaf's dictionary has the names by index of the dimension, as given in ``dynamic_shapes``. The
    list is empty if ``dynamic_shapes`` is None or empty, or if the program has no example inputs.
    """
    if not dynamic_shapes or program.example_inputs is None:
        return []
    args, kwargs = program.example_inputs
    values = [*args, *kwargs.values()]
    if isinstance(dynamic_shapes, Mapping):
        # ``dynamic_shapes`` names positional arguments by parameter, in the same order.
        shapes = list(cast("Mapping[str, object]", dynamic_shapes).values())
    else:
        shapes = list(cast("Sequence[object]", dynamic_shapes))
    return [found for value, shape in zip(values, shapes, strict=False)
            for found in _leaf_names(value, shape)]  # fmt: skip


def _leaf_names(value: object, shape: object) -> Iterator[dict[int, str]]:
    if isinstance(value, Mapping):
        for key, inner in cast("Mapping[str, object]", value).items():
            shapes = cast("Mapping[str, object]", shape)
            yield from _leaf_names(inner, shapes[key] if shape else None)
    elif isinstance(value, list | tuple):
        items = cast("Sequence[object]", value)
        inner_shapes = cast("Sequence[object]", shape) if shape else [None] * len(items)
        for inner, inner_shape in zip(items, inner_shapes, strict=False):
            yield from _leaf_names(inner, inner_shape)
    else:
        yield dict(_axis_names(shape))


def _axis_names(shape: object) -> Iterator[tuple[int, str]]:
    if isinstance(shape, Mapping):
        pairs = list(cast("Mapping[int, object]", shape).items())
    else:
        pairs = list(enumerate(cast("Sequence[object]", shape or ())))
    for axis, dimension in pairs:
        name = getattr(dimension, "__name__", None)
        if isinstance(name, str):
            yield axis, name


def _outputs(program: Any, taken: set[str]) -> tuple[Leaf, ...]:
    """Return the leaves of the flattened result of a program: constants, and names of tensors.

    The name of a tensor is its path in the result, such as ``hidden`` or ``output.0``. ``taken``
    are the names of inputs, which no output may have.
    """
    torch = pytorch()
    kinds = torch.export.graph_signature.OutputKind
    specs = [s for s in program.graph_signature.output_specs if s.kind is kinds.USER_OUTPUT]
    pytree = torch.utils._pytree
    marks = pytree.tree_unflatten(list(range(len(specs))), program.call_spec.out_spec)
    paths = [path for path, _ in pytree.tree_flatten_with_path(marks)[0]]
    found: list[Leaf] = []
    used = set(taken)
    for spec, path in zip(specs, paths, strict=True):
        if _is_constant(spec.arg):
            found.append(Constant(spec.arg.value))
            continue
        name = _path_name(path)
        while name in used:
            name = f"output.{name}"
        used.add(name)
        found.append(name)
    return tuple(found)


def _result_types(program: Any, outputs: Sequence[Leaf]) -> Iterator[tuple[str, ResultType]]:
    """Yield the name and the type of each tensor among a program's flattened results."""
    torch = pytorch()
    (returned,) = program.graph.output_node().args
    for leaf, node in zip(outputs, returned[len(returned) - len(outputs) :], strict=True):
        value: Any = getattr(node, "meta", {}).get("val")
        if isinstance(leaf, str) and isinstance(value, torch.Tensor):
            shape = tuple(size if isinstance(size, int) else None for size in value.shape)
            yield leaf, ResultType(shape, str(value.dtype).removeprefix("torch."))


def _path_name(path: Sequence[object]) -> str:
    keys = [str(getattr(k, "key", getattr(k, "idx", getattr(k, "name", k)))) for k in path]
    name = re.sub(r"[^\w.]", "_", ".".join(keys))
    return name if re.match(r"[A-Za-z_]", name) else f"output.{name}".removesuffix(".")
