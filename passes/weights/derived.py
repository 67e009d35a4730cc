"""Adds weights that are computed from other weights at compile time."""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.constants import (
    CONSTANT,
    PACK,
    PARTS,
    VALUE,
    ArgumentList,
    ConstantArgument,
    Matrix,
    Step,
    constant_arguments,
    pack_attribute,
)
from rammer_mlir.passes.ir.entry import entry_function
from rammer_mlir.passes.ir.structured import shape_of
from rammer_mlir.passes.weights.merged import WeightPart, joined_attributes


class DerivedWeights:
    """The weights of an entry function, and additional weights that are computed from them.

    Each derived weight is a new argument of the entry function. Equal derivations share an
    argument, except those by ``join``, which always adds an argument. Call ``finish`` after all
    other methods.
    """

    def __init__(self, module: ir.Module) -> None:
        main = entry_function(module)
        self._arguments = ArgumentList(main)
        self._weights = {weight.value: weight for weight in constant_arguments(main)}
        self._derived: dict[tuple[ir.Value, tuple[object, ...]], ir.Value] = {}

    def __contains__(self, value: ir.Value) -> bool:
        """Whether a value is a weight of the entry function."""
        return value in self._weights

    def reshape(self, weight: ir.Value, shape: Sequence[int]) -> ir.Value:
        """Return the entry function's argument for ``weight`` reshaped to ``shape``."""
        return self._derive(weight, [list(shape)], shape)

    def multiply(self, weight: ir.Value, matrix: Matrix) -> ir.Value:
        """Return the entry function's argument for the derived weight ``matrix @ weight``.

        The product sums over the first dimension of ``weight``.
        """
        before = shape_of(weight)
        return self._derive(weight, [before, matrix], [len(matrix), *before[1:]])

    def sum(self, weight: ir.Value, *, is_unsigned: bool) -> ir.Value:
        """Return the entry function's argument for sums of an i8 weight along its first dimension.

        The sums are i32. ``is_unsigned`` tells whether the elements of the weight are unsigned.
        """
        before = shape_of(weight)
        steps: list[Step] = [before, "ui8" if is_unsigned else "si8"]
        return self._derive(weight, steps, before[1:], ir.IntegerType.get_signless(32))

    def transpose(
        self, weight: ir.Value, permutation: Sequence[int], shape: Sequence[int] | None = None
    ) -> ir.Value:
        """Return the entry function's argument for ``weight`` with permuted dimensions.

        If ``shape`` is given, the weight is reshaped to it first.
        """
        before = shape_of(weight) if shape is None else list(shape)
        return self._derive(
            weight, [before, list(permutation)], [before[dim] for dim in permutation]
        )

    def join(self, parts: Sequence[WeightPart]) -> ir.Value:
        """Return the entry function's argument for weights that are concatenated along dimension 0.

        Each of ``parts`` describes a weight, and the zeros with which the weight is padded first.
        """
        attributes = joined_attributes(parts)
        shape = [sum(part.size[0] for part in parts), *parts[0].size[1:]]
        element = ir.RankedTensorType(parts[0].weight.value.type).element_type
        value = self._arguments.add(ir.RankedTensorType.get(shape, element), attributes)
        self._weights[value] = ConstantArgument(-1, value, attributes)
        return value

    def pad(self, weight: ir.Value, size: Sequence[int]) -> ir.Value:
        """Return the entry function's argument for ``weight`` padded to the shape ``size``.

        Zeros are appended along each dimension.
        """
        key = (weight, ("padded", *size))
        if key not in self._derived:
            shape = shape_of(weight)
            part = WeightPart(self._weights[weight], shape, [0] * len(shape), size)
            self._derived[key] = self.join([part])
        return self._derived[key]

    def __getitem__(self, value: ir.Value) -> ConstantArgument:
        """Return the description of a weight: its argument's index, name and attributes."""
        return self._weights[value]

    def finish(self) -> None:
        """Update the entry function's signature, and drop arguments of unused weights."""
        self._arguments.finish()

    def _derive(
        self,
        weight: ir.Value,
        steps: list[Step],
        shape: Sequence[int],
        element: ir.Type | None = None,
    ) -> ir.Value:
        """Return the argument that is ``weight`` after the compile-time steps ``steps``.

        Add the argument if it does not exist yet.

        Args:
            weight: a weight.
            steps: the steps, as in the attribute ``rtask.pack``.
            shape: the shape of the result.
            element: the element type of the result; None for that of ``weight``.
        """
        key = (weight, tuple(map(tuple, steps)))
        if key not in self._derived:
            base = self._weights[weight]
            element = element or ir.RankedTensorType(weight.type).element_type
            attributes = {
                name: base.attributes[name]
                for name in (CONSTANT, VALUE, PARTS)
                if name in base.attributes
            }
            attributes[PACK] = pack_attribute(_joined_steps(base.steps, steps))
            kind = ir.RankedTensorType.get(list(shape), element)
            value = self._arguments.add(kind, attributes)
            self._weights[value] = ConstantArgument(-1, value, attributes)
            self._derived[key] = value
        return self._derived[key]


def _joined_steps(before: list[Step], after: list[Step]) -> list[Step]:
    """Return a single list of ``rtask.pack`` steps: first ``before``, then ``after``.

    A reshape at the end of ``before`` is dropped if the reshape at the start of ``after`` makes it
    redundant.
    """
    last = next((n for n, s in enumerate(reversed(before)) if not isinstance(s, list)), None)
    turns = len(before) if last is None else last
    return [*(before[:-1] if turns % 2 else before), *after]
