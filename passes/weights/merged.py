"""Weights that are joined at compile time: padded with zeros, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.constants import CONSTANT, PACK, PARTS, VALUE, ConstantArgument


@dataclass(frozen=True)
class WeightPart:
    """A weight as part of a larger one.

    Attributes:
        weight: the weight.
        shape: its shape, of the rank of the whole.
        low: zeros in front of it in each dimension.
        size: its shape with the zeros around it.
    """

    weight: ConstantArgument
    shape: Sequence[int]
    low: Sequence[int]
    size: Sequence[int]


def joined_attributes(parts: Sequence[WeightPart]) -> dict[str, ir.Attribute]:
    """Return the attributes of an argument that holds parts one after the other (dimension 0)."""
    return {
        CONSTANT: ir.StringAttr.get("+".join(part.weight.name for part in parts)),
        PARTS: ir.ArrayAttr.get([_part_attribute(part) for part in parts]),
    }


def _part_attribute(part: WeightPart) -> ir.Attribute:
    kept = {
        name: part.weight.attributes[name]
        for name in (CONSTANT, VALUE, PACK, PARTS)
        if name in part.weight.attributes
    }
    sizes = {"shape": part.shape, "low": part.low, "size": part.size}
    numbers = {name: ir.DenseI64ArrayAttr.get(list(value)) for name, value in sizes.items()}
    return ir.DictAttr.get({**kept, **numbers})
