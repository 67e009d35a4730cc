"""Reads names, shapes and types of an entry function's inputs, outputs and weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.bindings import ir
from rammer_mlir.errors import ModelError
from rammer_mlir.passes.ir.constants import CONSTANT, PACK, PARTS, VALUE, argument_attributes
from rammer_mlir.passes.ir.element_types import (
    SUPPORTED,
    dtype_of,
    element_of,
    named_dtype,
)
from rammer_mlir.passes.ir.entry import symbol_name
from rammer_mlir.programs.dimensions import OpenSignature, OpenTensor
from rammer_mlir.programs.signature import Signature, TensorSpec

NAME, OUTPUT, ARENA = "rtask.name", "rtask.output", "rtask.arena"
"""Attributes of arguments: the name of an input or output, an output's buffer, the arena."""

DIMENSIONS = "rtask.dimensions"
"""Attribute of an argument or result: names of its dimensions, empty for unnamed dimensions."""

DTYPE = "rtask.dtype"
"""Attribute of an argument or result: NumPy's dtype if MLIR's type is ambiguous (``uint8``)."""

_MARKS = (CONSTANT, ARENA, OUTPUT)


@dataclass(frozen=True)
class _Value:
    """An argument or result of an entry function: its MLIR type and its attributes.

    ``default`` is the name of the argument or result if it has no attribute ``rtask.name``.
    """

    kind: ir.Type
    attributes: Mapping[str, ir.Attribute]
    default: str

    @property
    def name(self) -> str:
        found = self.attributes.get(NAME)
        return self.default if found is None else ir.StringAttr(found).value

    def marks(self) -> dict[str, ir.Attribute]:
        """Return the attributes ``rtask.name`` and, if necessary, ``rtask.dtype``, by name.

        ``rtask.dtype`` is necessary if MLIR's element type does not determine the NumPy dtype; for
        example, ``i8`` stands for int8 and uint8.
        """
        found: dict[str, ir.Attribute] = {NAME: ir.StringAttr.get(self.name)}
        if str(element_of(self.kind)) not in SUPPORTED:
            found[DTYPE] = ir.StringAttr.get(self.dtype.name)
        return found

    @property
    def dtype(self) -> np.dtype[np.generic]:
        found = dtype_of(element_of(self.kind))
        assert found is not None, "legalization refuses others"
        named = self.attributes.get(DTYPE)
        return found if named is None else named_dtype(ir.StringAttr(named).value)

    @property
    def shape(self) -> tuple[int | str, ...]:
        if not isinstance(self.kind, ir.ShapedType):
            return ()
        kind = self.kind
        names = self.attributes.get(DIMENSIONS)
        given = [] if names is None else [ir.StringAttr(each).value for each in ir.ArrayAttr(names)]
        return tuple(
            ((given[n] if n < len(given) else "") or f"{self.name}[{n}]")
            if kind.is_dynamic_dim(n)
            else kind.get_dim_size(n)
            for n in range(kind.rank - self._is_of_pairs)
        )

    @property
    def _is_of_pairs(self) -> bool:
        """Whether complex numbers are stored as pairs of reals, in a last dimension of size 2."""
        is_whole = isinstance(element_of(self.kind), ir.ComplexType)
        return self.dtype.kind == "c" and not is_whole

    def open_tensor(self) -> OpenTensor:
        return OpenTensor(self.name, self.shape, self.dtype)


def open_signature(function: ir.OpView, file: str) -> OpenSignature:
    """Return the inputs and outputs of an entry function; each dynamic dimension gets a symbol.

    An input without ``rtask.name`` is named ``arg0``, ``arg1`` and so on, by its index among all
    arguments. An output without it is named ``result0``, ``result1`` and so on. ``file`` is the
    module's name in messages.

    Raises:
        ModelError: if two inputs, or two outputs, have the same name, or a name is empty or has
            characters that cannot be printed.
    """
    inputs, outputs = list(_inputs(function)), list(_outputs(function))
    for what, values in (("inputs", inputs), ("outputs", outputs)):
        wrong = [each.name for each in values if not each.name or not each.name.isprintable()]
        if wrong:
            raise ModelError(
                f"{file}: function '{symbol_name(function)}': expected {what} with names of "
                f"printable characters, found {wrong[0]!r}; change its '{NAME}'"
            )
        name, count = (Counter(each.name for each in values).most_common(1) or [("", 0)])[0]
        if count > 1:
            raise ModelError(
                f"{file}: function '{symbol_name(function)}': expected {what} of different names, "
                f"found {count} called '{name}'; give each argument or result a '{NAME}' of its own"
            )
    return OpenSignature(
        tuple(value.open_tensor() for value in inputs),
        tuple(value.open_tensor() for value in outputs),
    )


def static_signature(function: ir.OpView, file: str) -> Signature:
    """Return the inputs and outputs of an entry function; all their shapes must be static.

    ``file`` is the module's name in messages.

    Raises:
        ModelError: if two inputs, or two outputs, have the same name.
    """
    opened = open_signature(function, file)
    return Signature(tuple(map(_spec, opened.inputs)), tuple(map(_spec, opened.outputs)))


def _spec(tensor: OpenTensor) -> TensorSpec:
    assert tensor.shape is not None and tensor.dtype is not None, "MLIR's tensors have both"
    shape = [dim for dim in tensor.shape if isinstance(dim, int)]
    assert len(shape) == len(tensor.shape), "legalization refuses open shapes"
    return TensorSpec(tensor.name, tuple(shape), tensor.dtype)


def name_interface(function: ir.OpView) -> None:
    """Set attributes that record the names and dtypes of a function's inputs and outputs, in place.

    A dtype is recorded only if the MLIR element type does not determine it. Weights and the arena
    get no attributes.
    """
    for key, values in (("arg_attrs", _arguments(function)), ("res_attrs", _results(function))):
        entries = [
            ir.DictAttr.get(
                {**value.attributes, **value.marks()}
                if not value.attributes.keys() & {CONSTANT, ARENA}
                else dict(value.attributes)
            )
            for value in values
        ]
        if entries:
            function.operation.attributes[key] = ir.ArrayAttr.get(entries)


def marked_values(
    function: ir.OpView,
) -> Iterator[tuple[str, ir.Type, Mapping[str, ir.Attribute]]]:
    """Yield a triple for each argument, then for each result, of a function.

    A triple has the text ``argument N`` or ``result N`` for messages, the type, and the attributes.
    """
    for what, values in (("argument", _arguments(function)), ("result", _results(function))):
        for number, value in enumerate(values):
            yield f"{what} {number}", value.kind, value.attributes


def input_positions(function: ir.OpView) -> list[int]:
    """Return the indices of the model's inputs among the arguments of an entry function.

    Attributes mark the other arguments as weights, as the arena or as outputs.
    """
    marks = argument_attributes(function)
    return [number for number, each in enumerate(marks) if not each.keys() & set(_MARKS)]


def _inputs(function: ir.OpView) -> Iterator[_Value]:
    arguments = list(_arguments(function))
    yield from (arguments[number] for number in input_positions(function))


def _arguments(function: ir.OpView) -> Iterator[_Value]:
    block = function.operation.regions[0].blocks[0]
    outputs = 0
    for number, marks in enumerate(argument_attributes(function)):
        default = f"arg{number}"
        if OUTPUT in marks:
            default, outputs = f"result{outputs}", outputs + 1
        yield _Value(block.arguments[number].type, marks, default)


def _results(function: ir.OpView) -> Iterator[_Value]:
    operation = function.operation
    kinds = ir.FunctionType(ir.TypeAttr(operation.attributes["function_type"]).value).results
    entries: Sequence[ir.Attribute] = ()
    if "res_attrs" in operation.attributes:
        entries = list(ir.ArrayAttr(operation.attributes["res_attrs"]))
    for number, kind in enumerate(kinds):
        marks = {i.name: i.attr for i in ir.DictAttr(entries[number])} if entries else {}
        yield _Value(kind, marks, f"result{number}")


def _outputs(function: ir.OpView) -> Iterator[_Value]:
    yield from (value for value in _arguments(function) if OUTPUT in value.attributes)
    yield from _results(function)


def check_weights(
    function: ir.OpView, constants: Mapping[str, NDArray[np.generic]], file: str
) -> None:
    """Check that each weight has a value in the IR or in ``constants`` (arrays by weight name).

    ``file`` is the module's name in messages.

    Raises:
        ModelError: with the names of the weights without a value, or with a weight whose value has
            another shape or dtype.
    """
    missing = sorted(set(_missing_weights(function)) - constants.keys())
    if missing:
        raise ModelError(
            f"{file}: function '{symbol_name(function)}': expected values of the weights "
            f"{', '.join(map(repr, missing[:8]))}{' ...' if len(missing) > 8 else ''}, found none; "
            "give them as constants, by name, or print the IR with its values (--emit-values)"
        )

    for value in _arguments(function):
        if CONSTANT in value.attributes:
            for problem in _weight_problems(value, constants):
                raise ModelError(f"{file}: function '{symbol_name(function)}': {problem}")


def _weight_problems(value: _Value, constants: Mapping[str, NDArray[np.generic]]) -> Iterator[str]:
    """Yield a message for each array in ``constants`` whose shape or dtype does not fit a weight.

    ``value`` is the weight's argument. For an argument with ``rtask.pack``, only the number of
    elements is checked, because the IR does not contain the weight's original shape.
    """
    wanted = dtype_of(element_of(value.kind))
    steps = value.attributes.get(PACK)
    is_summed = steps is not None and any(isinstance(s, ir.TypeAttr) for s in ir.ArrayAttr(steps))
    for marks, shape in _stored_values(value):
        name = ir.StringAttr(marks[CONSTANT]).value
        if (VALUE in marks and not is_elided(marks[VALUE])) or name not in constants:
            continue
        array = constants[name]
        if PACK in marks:
            size = prod(ir.DenseI64ArrayAttr(ir.ArrayAttr(marks[PACK])[0]))
            if array.size != size:
                yield f"weight '{name}': expected {size} elements, found {array.size}"
        elif shape is not None and array.shape != shape:
            yield f"weight '{name}': expected shape {shape}, found {array.shape}"
        if wanted is not None and not is_summed and not _may_hold(array.dtype, wanted):
            yield f"weight '{name}': expected dtype {wanted}, found {array.dtype}; convert it"


def _stored_values(
    value: _Value,
) -> Iterator[tuple[Mapping[str, ir.Attribute], tuple[int, ...] | None]]:
    """Yield the attributes and the shape of each array from which a weight is computed.

    The shape is None if it is unknown.
    """
    if PARTS not in value.attributes:
        shape = tuple(size for size in value.shape if isinstance(size, int))
        yield value.attributes, shape
        return
    for part in ir.ArrayAttr(value.attributes[PARTS]):
        marks = {item.name: item.attr for item in ir.DictAttr(part)}
        if PARTS not in marks:
            yield marks, None


def _may_hold(found: np.dtype[np.generic], wanted: np.dtype[np.generic]) -> bool:
    """Whether an array of dtype ``found`` can be the value of a weight of dtype ``wanted``.

    The dtypes must be equal, or of the same size and both integers or booleans (MLIR's integers are
    signless), or of the same size with one of them opaque (NumPy's kind V, as of bfloat16).
    """
    if found == wanted:
        return True
    are_integers = found.kind in "iub" and wanted.kind in "iub"
    return found.itemsize == wanted.itemsize and (are_integers or "V" in (found.kind, wanted.kind))


def _missing_weights(function: ir.OpView) -> Iterator[str]:
    for marks in argument_attributes(function):
        if CONSTANT in marks:
            yield from _without_value(marks)


def _without_value(marks: Mapping[str, ir.Attribute]) -> Iterator[str]:
    if PARTS in marks:
        for part in ir.ArrayAttr(marks[PARTS]):
            yield from _without_value({item.name: item.attr for item in ir.DictAttr(part)})
    elif VALUE not in marks or is_elided(marks[VALUE]):
        yield ir.StringAttr(marks[CONSTANT]).value


def is_elided(value: ir.Attribute) -> bool:
    """Whether MLIR's printer omitted the elements of ``value`` (``__elided__``)."""
    return str(value).startswith("dense_resource<__elided__>")


def drop_elided_values(function: ir.OpView) -> None:
    """Remove the value attribute of each weight whose elements MLIR's printer omitted.

    The value of such a weight then comes from the ``constants`` that the caller of ``compile``
    gives.
    """
    entries = argument_attributes(function)
    kept = [{k: v for k, v in each.items() if k != VALUE or not is_elided(v)} for each in entries]
    if kept != entries:
        function.operation.attributes["arg_attrs"] = ir.ArrayAttr.get(
            [ir.DictAttr.get(each) for each in kept]
        )
