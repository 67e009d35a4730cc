"""Weights made from weights at compile time: reshapes and transposes that cost no run time."""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.bindings import ir
from rammer_mlir.passes.constants import (
    CONSTANT,
    PACK,
    PARTS,
    VALUE,
    ArgumentList,
    ConstantArgument,
    constant_arguments,
)
from rammer_mlir.passes.entry import entry_function
from rammer_mlir.passes.merged_weights import WeightPart, joined_attributes
from rammer_mlir.passes.structured import shape_of


class DerivedWeights:
    """The weights of an entry function, and further ones made from them; equal ones once."""

    def __init__(self, module: ir.Module) -> None:
        main = entry_function(module)
        self._arguments = ArgumentList(main)
        self._weights = {weight.value: weight for weight in constant_arguments(main)}
        self._derived: dict[tuple[ir.Value, tuple[tuple[int, ...], ...]], ir.Value] = {}

    def __contains__(self, value: ir.Value) -> bool:
        """Whether the value is a weight."""
        return value in self._weights

    def reshape(self, weight: ir.Value, shape: Sequence[int]) -> ir.Value:
        """Return the weight in another shape."""
        return self._derive(weight, [list(shape)], shape)

    def transpose(
        self, weight: ir.Value, permutation: Sequence[int], shape: Sequence[int] | None = None
    ) -> ir.Value:
        """Return the weight, first reshaped to ``shape`` if that is given, with permuted dims."""
        before = shape_of(weight) if shape is None else list(shape)
        return self._derive(
            weight, [before, list(permutation)], [before[dim] for dim in permutation]
        )

    def join(self, parts: Sequence[WeightPart]) -> ir.Value:
        """Return a weight that holds others one behind the other, with zeros around them."""
        attributes = joined_attributes(parts)
        shape = [sum(part.size[0] for part in parts), *parts[0].size[1:]]
        element = ir.RankedTensorType(parts[0].weight.value.type).element_type
        value = self._arguments.add(ir.RankedTensorType.get(shape, element), attributes)
        self._weights[value] = ConstantArgument(-1, value, attributes)
        return value

    def __getitem__(self, value: ir.Value) -> ConstantArgument:
        """Return the weight that a value is."""
        return self._weights[value]

    def finish(self) -> None:
        """Bring the entry function's signature up to date, without weights that nothing uses."""
        self._arguments.finish()

    def _derive(self, weight: ir.Value, steps: list[list[int]], shape: Sequence[int]) -> ir.Value:
        key = (weight, tuple(map(tuple, steps)))
        if key not in self._derived:
            base = self._weights[weight]
            element = ir.RankedTensorType(weight.type).element_type
            attributes = {
                name: base.attributes[name]
                for name in (CONSTANT, VALUE, PARTS)
                if name in base.attributes
            }
            attributes[PACK] = _steps_attribute(base.steps, steps)
            kind = ir.RankedTensorType.get(list(shape), element)
            value = self._arguments.add(kind, attributes)
            self._weights[value] = ConstantArgument(-1, value, attributes)
            self._derived[key] = value
        return self._derived[key]


def _steps_attribute(before: list[list[int]], after: list[list[int]]) -> ir.Attribute:
    """Join two lists of alternating reshapes and transposes; each begins with a reshape."""
    if len(before) % 2 == 1:
        before = before[:-1]
    return ir.ArrayAttr.get([ir.DenseI64ArrayAttr.get(step) for step in [*before, *after]])
