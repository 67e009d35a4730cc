"""Describes weights that are concatenated, after padding with zeros, at compile time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.constants import CONSTANT, PACK, PARTS, VALUE, ConstantArgument


@dataclass(frozen=True)
class WeightPart:
    """A weight that becomes a part of a larger weight, after padding with zeros.

    Attributes:
        weight: the weight.
        shape: the weight's shape, with the rank of the larger weight.
        low: the count of zeros before the weight in each dimension.
        size: the shape after padding.
    """

    weight: ConstantArgument
    shape: Sequence[int]
    low: Sequence[int]
    size: Sequence[int]


def joined_attributes(parts: Sequence[WeightPart]) -> dict[str, ir.Attribute]:
    """Return the attributes, by name, of an argument that concatenates ``parts`` along dimension 0.

    The attributes mark the argument as a weight, and describe how ``parts`` give its value.
    """
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
