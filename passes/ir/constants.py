"""Reads and adds weights: arguments of the entry function with the attribute ``rtask.constant``.

These attributes of an argument describe its value:

- ``rtask.constant``: the name of the stored value from which the argument is computed. The value is
  outside the IR, unless ``rtask.value`` is present.
- ``rtask.value``: the stored value itself, in the IR, if it is small.
- ``rtask.pack``: the steps that compute the argument from the stored value at compile time.
- ``rtask.parts``: the parts of an argument that is computed from several stored values. The steps
  apply to the concatenation of the parts along the first dimension. Each part has the attributes
  above, its ``shape``, and two numbers for each dimension: ``low``, the number of zeros in front of
  the part, and ``size``, its size including zeros.

The first step is a reshape, given by the new shape. Reshapes alternate with steps of these kinds:

- a transpose, given by a permutation,
- a product ``matrix @ x`` along the first dimension, given by the matrix,
- a sum of i8 elements along the first dimension in i32, given by their type, ``ui8`` or ``si8``.

The argument has the shape after the last step. From the first matrix on, values are f64, and are
rounded once, after the last step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.dense_values import array_of

CONSTANT = "rtask.constant"
VALUE = "rtask.value"
PACK = "rtask.pack"
PARTS = "rtask.parts"


Matrix = tuple[tuple[float, ...], ...]
"""A matrix as rows of numbers."""

Step = list[int] | Matrix | str
"""A step of ``rtask.pack``: a reshape, a transpose, a matrix product or a sum.

A list is a shape or a permutation, in alternation. A matrix multiplies the first dimension. The
text ``ui8`` or ``si8`` is the type of elements that are summed along the first dimension.
"""


@dataclass(frozen=True)
class ConstantArgument:
    """A weight that is an argument of the entry function.

    Attributes:
        number: the index of the argument.
        value: the argument.
        attributes: the argument's attributes by name.
    """

    number: int
    value: ir.Value
    attributes: Mapping[str, ir.Attribute]

    @property
    def name(self) -> str:
        """The name of the stored value from which the argument is computed."""
        return ir.StringAttr(self.attributes[CONSTANT]).value

    @property
    def steps(self) -> list[Step]:
        """The steps, in order, that compute the argument from the stored value; may be empty.

        The steps with even indices (0, 2, ...) are reshapes. Each step between two reshapes is a
        transpose, a product with a matrix, or a sum.
        """
        if PACK not in self.attributes:
            return []
        return [_read_step(step) for step in ir.ArrayAttr(self.attributes[PACK])]

    @property
    def held(self) -> NDArray[np.generic] | None:
        """The stored value as an array, if the IR contains it (``rtask.value``); otherwise None."""
        attribute = self.attributes.get(VALUE)
        if attribute is None:
            return None
        assert isinstance(attribute, ir.DenseElementsAttr), "legalization makes it of others"
        return array_of(attribute)


def _read_step(step: ir.Attribute) -> Step:
    if isinstance(step, ir.TypeAttr):
        return str(step.value)
    if not isinstance(step, ir.DenseElementsAttr):
        return list(ir.DenseI64ArrayAttr(step))
    return tuple(tuple(map(float, row)) for row in np.array(step))


def pack_attribute(steps: Sequence[Step]) -> ir.Attribute:
    """Return the attribute ``rtask.pack`` for the steps that compute a constant argument."""
    return ir.ArrayAttr.get([_step_attribute(step) for step in steps])


def _step_attribute(step: Step) -> ir.Attribute:
    if isinstance(step, str):
        return ir.TypeAttr.get(ir.Type.parse(step))
    if isinstance(step, list):
        return ir.DenseI64ArrayAttr.get(step)
    return ir.DenseElementsAttr.get(np.array(step, dtype=np.float64))


def is_constant(value: ir.Value) -> bool:
    """Whether a value is a weight: an argument of the entry function with ``rtask.constant``."""
    if not isinstance(value.owner, ir.Block):
        return False
    function = value.owner.owner.opview
    return CONSTANT in argument_attributes(function)[ir.BlockArgument(value).arg_number]


def argument_attributes(function: ir.OpView) -> list[dict[str, ir.Attribute]]:
    """Return, for each argument of a function, its attributes by name."""
    attributes = function.operation.attributes
    count = len(list(function.operation.regions[0].blocks[0].arguments))
    if "arg_attrs" not in attributes:
        return [{} for _ in range(count)]
    entries = ir.ArrayAttr(attributes["arg_attrs"])
    return [{item.name: item.attr for item in ir.DictAttr(entry)} for entry in entries]


def constant_arguments(function: ir.OpView) -> Iterator[ConstantArgument]:
    """Yield the weights among a function's arguments, in order."""
    arguments = function.operation.regions[0].blocks[0].arguments
    for number, attributes in enumerate(argument_attributes(function)):
        if CONSTANT in attributes:
            yield ConstantArgument(number, arguments[number], attributes)


class ArgumentList:
    """Changes to a function's argument list: appended arguments and new attributes.

    ``finish`` updates the function's signature once for all changes.
    """

    def __init__(self, function: ir.OpView) -> None:
        self._function = function
        self._block = function.operation.regions[0].blocks[0]
        self._attributes = argument_attributes(function)

    def add(self, kind: ir.Type, attributes: Mapping[str, ir.Attribute]) -> ir.Value:
        """Append an argument of type ``kind`` with attributes, and return its value."""
        self._attributes.append(dict(attributes))
        return self._block.add_argument(kind, ir.Location.unknown())

    def mark(self, number: int, key: str, value: ir.Attribute) -> None:
        """Set attribute ``key`` of argument ``number`` to ``value``."""
        self._attributes[number][key] = value

    def finish(self) -> None:
        """Erase the weights without uses, and update the function's type and attributes."""
        # Backwards, so that the numbers of the remaining arguments stay valid.
        for number in reversed(range(len(self._attributes))):
            unused = not any(True for _ in self._block.arguments[number].uses)
            if unused and CONSTANT in self._attributes[number]:
                self._block.erase_argument(number)
                del self._attributes[number]
        _set_signature(self._function, self._attributes)


def _set_signature(function: ir.OpView, attributes: list[dict[str, ir.Attribute]]) -> None:
    operation = function.operation
    block = operation.regions[0].blocks[0]
    old = ir.FunctionType(ir.TypeAttr(operation.attributes["function_type"]).value)
    inputs = [argument.type for argument in block.arguments]
    kind = ir.FunctionType.get(inputs, list(old.results))
    operation.attributes["function_type"] = ir.TypeAttr.get(kind)
    operation.attributes["arg_attrs"] = ir.ArrayAttr.get(
        [ir.DictAttr.get(entry) for entry in attributes]
    )
