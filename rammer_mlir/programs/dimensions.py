"""Defines signatures with open (symbolic) dimensions, and binds the symbols to sizes.

A symbol is the name that a model gives a dimension; all dimensions with the same name have the same
size. An unnamed dimension gets a unique symbol. For example, the first dimension of ``x`` gets
``x[0]``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

Shape = tuple[int, ...]

Shapes = Mapping[str, Shape]
"""Static shapes of inputs by name."""

Sizes = Mapping[str, int]
"""Sizes of open dimensions by symbol."""


@dataclass(frozen=True)
class HostType:
    """The type of a sequence of tensors, or of an optional value.

    Attributes:
        is_sequence: whether the value is a sequence of tensors, and not a tensor.
        is_optional: whether the value may be absent.
        shape: of each tensor, a size or a symbol for each dimension; None if unranked. A symbol may
            have different sizes in different tensors.
        dtype: the dtype of each tensor.
    """

    is_sequence: bool
    is_optional: bool
    shape: tuple[int | str, ...] | None
    dtype: np.dtype[np.generic]

    def __str__(self) -> str:
        """Return the type as text, such as ``optional sequence of Nx3 float32``."""
        words = ["optional"] * self.is_optional + ["sequence of"] * self.is_sequence
        return " ".join([*words, _type_text(self.shape, self.dtype)])


@dataclass(frozen=True)
class OpenTensor:
    """An input or output of a model with open dimensions.

    Attributes:
        name: the name in the model.
        shape: a size or a symbol for each dimension; None if unranked.
        dtype: NumPy's element type; None for an output whose type the model does not declare.
        is_tensor: false for sequences of tensors and optional values, which only the host handles.
        host_type: the type of a sequence or optional value; None for a tensor, and for a value of
            unknown type, which is not checked.
    """

    name: str
    shape: tuple[int | str, ...] | None
    dtype: np.dtype[np.generic] | None
    is_tensor: bool = True
    host_type: HostType | None = None

    @property
    def symbols(self) -> list[str]:
        """The symbols of the open dimensions in the tensor's shape, in order, with repetitions."""
        return [dim for dim in self.shape or () if isinstance(dim, str)]

    def __str__(self) -> str:
        """Return name, shape and dtype as text, such as ``'x' batchx3 float32``."""
        if not self.is_tensor:
            return f"'{self.name}' {self.host_type or 'sequence or optional'}"
        return f"'{self.name}' {_type_text(self.shape, self.dtype)}"


@dataclass(frozen=True)
class OpenSignature:
    """Inputs and outputs of a model with open dimensions, in the model's order.

    Attributes:
        inputs: the tensors that a run takes.
        outputs: the tensors that a run returns.
        shape_values: names of the inputs whose elements determine shapes, such as the shape operand
            of a reshape.
    """

    inputs: tuple[OpenTensor, ...]
    outputs: tuple[OpenTensor, ...]
    shape_values: tuple[str, ...] = ()

    @property
    def symbols(self) -> tuple[str, ...]:
        """The distinct symbols of all inputs, in order of first use."""
        return tuple(dict.fromkeys(s for tensor in self.inputs for s in tensor.symbols))

    @property
    def unranked(self) -> tuple[str, ...]:
        """Names of the unranked inputs."""
        return tuple(t.name for t in self.inputs if t.shape is None and t.is_tensor)

    @property
    def is_open(self) -> bool:
        """Whether an input has an open dimension or no rank, or determines shapes by its values."""
        return bool(self.symbols or self.unranked or self.shape_values)

    def with_sizes(self, sizes: Sizes) -> OpenSignature:
        """Return the signature with the symbols in ``sizes`` replaced by their sizes."""

        def tensors(given: Sequence[OpenTensor]) -> tuple[OpenTensor, ...]:
            return tuple(replace(t, shape=_substituted(t.shape, sizes)) for t in given)

        return replace(self, inputs=tensors(self.inputs), outputs=tensors(self.outputs))

    def shapes(self, sizes: Sizes, shapes: Shapes) -> dict[str, Shape]:
        """Return the static shape of every input, by name.

        Args:
            sizes: the size of every symbol.
            shapes: the shapes of all unranked inputs, by name.
        """
        return {
            tensor.name: shapes[tensor.name]
            if tensor.shape is None
            else tuple(d if isinstance(d, int) else sizes[d] for d in tensor.shape)
            for tensor in self.inputs
        }


def _substituted(shape: tuple[int | str, ...] | None, sizes: Sizes) -> tuple[int | str, ...] | None:
    if shape is None:
        return None
    return tuple(sizes.get(d, d) if isinstance(d, str) else d for d in shape)


@dataclass(frozen=True)
class Bound:
    """The result of ``bind``: sizes of open dimensions, and contradictions.

    Attributes:
        sizes: sizes by symbol, including generated symbols such as ``x[0]`` for the dimensions of
            unranked inputs.
        problems: clauses for an error message. There is a clause for each shape that contradicts
            the signature, and a clause for each symbol that has several sizes.
    """

    sizes: dict[str, int]
    problems: tuple[str, ...]


@dataclass(frozen=True)
class _Place:
    """A size of a symbol, and the tensor or argument that gives this size.

    Attributes:
        size: the size.
        where: name of the tensor or argument, for messages.
        position: index of the tensor's dimension; None for an argument.
    """

    size: int
    where: str
    position: int | None = None

    def text(self, *, exact: bool) -> str:
        at = f"[{self.position}]" if exact and self.position is not None else ""
        return f"{self.size} in {self.where}{at}"


def bind(
    signature: OpenSignature, shapes: Shapes, dims: Sizes | None = None, given_as: str = "dims"
) -> Bound:
    """Infer the sizes of symbols from static shapes of inputs and from ``dims``.

    The result also lists contradictions: shapes that do not fit the signature, and symbols that
    have several sizes.

    Args:
        signature: inputs with symbols in their shapes.
        shapes: static shapes of some of the inputs, by name.
        dims: additional sizes by symbol.
        given_as: the name of the argument ``dims`` in messages.
    """
    problems: list[str] = []
    places: dict[str, list[_Place]] = {}
    for tensor in signature.inputs:
        shape = shapes.get(tensor.name)
        if shape is None:
            continue
        expected = tensor.shape
        if expected is None:
            expected = tuple(f"{tensor.name}[{position}]" for position in range(len(shape)))
        if not fits(expected, shape):
            problems.append(
                f"input '{tensor.name}': expected shape {shape_text(expected)}, found "
                f"{shape_text(shape)}"
            )
            continue
        for position, (symbol, size) in enumerate(zip(expected, shape, strict=True)):
            if isinstance(symbol, str):
                places.setdefault(symbol, []).append(_Place(size, tensor.name, position))
    for symbol, size in (dims or {}).items():
        places.setdefault(symbol, []).append(_Place(size, given_as))
    problems.extend(_contradictions(places))
    return Bound({symbol: found[0].size for symbol, found in places.items()}, tuple(problems))


def fits(expected: Sequence[int | str], shape: Shape) -> bool:
    """Whether ``shape`` has the rank and the sizes of ``expected``; a symbol fits any size."""
    return len(expected) == len(shape) and all(
        isinstance(dim, str) or dim == size for dim, size in zip(expected, shape, strict=True)
    )


def _contradictions(places: Mapping[str, Sequence[_Place]]) -> Iterator[str]:
    for symbol, found in places.items():
        first: dict[int, _Place] = {}
        for place in found:
            first.setdefault(place.size, place)
        if len(first) > 1:
            exact = len({place.where for place in first.values()}) < len(first)
            yield f"'{symbol}' is {', '.join(place.text(exact=exact) for place in first.values())}"


def shape_text(shape: Sequence[int | str]) -> str:
    """Return a shape as text for messages, such as ``batchx3``; ``scalar`` if empty."""
    return "x".join(map(str, shape)) or "scalar"


def _type_text(shape: Sequence[int | str] | None, dtype: np.dtype[np.generic] | None) -> str:
    """Return a tensor type as text for messages, such as ``batchx3 float32``."""
    sizes = "any shape" if shape is None else shape_text(shape)
    return f"{sizes} {'any type' if dtype is None else dtype}"


def sizes_text(sizes: Sizes) -> str:
    """Return sizes by symbol as text for messages, such as ``batch=8, length=16``.

    The text is ``these shapes`` if there are no sizes.
    """
    return ", ".join(f"{symbol}={size}" for symbol, size in sizes.items()) or "these shapes"


@dataclass(frozen=True)
class Wording:
    """The syntax, Python or command line, in which messages tell users how to give sizes.

    Attributes:
        is_python: true for Python arguments, false for command-line options.
    """

    is_python: bool

    def ask(self, signature: OpenSignature) -> str:
        """Return the text of arguments or options that give every open dimension a size.

        For example, ``dims={'batch': N}`` in Python, ``--dim batch=N`` on the command line.
        """
        symbols, unranked = signature.symbols, signature.unranked
        if not self.is_python:
            flags = [f"--dim {_quoted(symbol)}=N" for symbol in symbols]
            return " ".join([*flags, *(f"--shape {name}=N,..." for name in unranked)])
        sizes = ", ".join(f"'{symbol}': N" for symbol in symbols)
        shapes = ", ".join(f"'{name}': (N, ...)" for name in unranked)
        asked = [f"dims={{{sizes}}}"] * bool(sizes) + [f"shapes={{{shapes}}}"] * bool(shapes)
        return " and ".join(asked)


PYTHON, COMMAND_LINE = Wording(is_python=True), Wording(is_python=False)


def _quoted(symbol: str) -> str:
    """Return a symbol as a shell argument, in single quotes if necessary.

    Quotes are not necessary if the symbol has only letters, digits, ``_``, ``.`` and ``-``.
    """
    is_plain = all(c.isalnum() or c in "_.-" for c in symbol)
    return symbol if is_plain else "'" + symbol.replace("'", "'\\''") + "'"


def describe_open(signature: OpenSignature) -> str:
    """Return a signature's open dimensions and unranked inputs as text for messages.

    For example, ``'batch', the shape of 'x'``.
    """
    names = [f"'{symbol}'" for symbol in signature.symbols]
    names += [f"the shape of '{name}'" for name in signature.unranked]
    return ", ".join(names)
