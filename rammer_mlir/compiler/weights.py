"""Packs the weights in the layout that compiled code reads."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.bindings import ir
from rammer_mlir.compiler.weight_recipes import Part, Recipe
from rammer_mlir.passes.ir.constants import PARTS, ConstantArgument, constant_arguments

Array = NDArray[np.generic]


def packed_weights(main: ir.OpView, values: Mapping[str, Array]) -> dict[int, Array]:
    """Return the array that the program reads for each weight, by argument index of ``main``.

    ``main`` is the entry function; ``values`` has the model's weights by name. Each array is dense,
    row-major and of its argument's shape. A weight that needs no packing is not copied.

    Raises:
        ModelError: if ``values`` lacks a weight.
    """
    recipes = weight_recipes(main).items()
    arrays = {number: recipe.array(values) for number, recipe in recipes}
    return {n: np.ascontiguousarray(a).reshape(a.shape) for n, a in arrays.items()}


def weight_recipes(main: ir.OpView) -> dict[int, Recipe]:
    """Return the recipe of every weight argument of the entry function, by argument index."""
    return {
        weight.number: _recipe(weight, tuple(ir.ShapedType(weight.value.type).shape))
        for weight in constant_arguments(main)
    }


def _recipe(weight: ConstantArgument, shape: tuple[int, ...] | None = None) -> Recipe:
    if PARTS not in weight.attributes:
        return Recipe(weight.name, weight.held, (), tuple(weight.steps), shape)
    return Recipe("", None, tuple(_parts(weight)), tuple(weight.steps), shape)


def _parts(weight: ConstantArgument) -> list[Part]:
    found: list[Part] = []
    for entry in ir.ArrayAttr(weight.attributes[PARTS]):
        attributes = {item.name: item.attr for item in ir.DictAttr(entry)}
        shape, low, size = (
            tuple(ir.DenseI64ArrayAttr(attributes[name])) for name in ("shape", "low", "size")
        )
        part = ConstantArgument(-1, weight.value, attributes)
        found.append(Part(_recipe(part), shape, low, size))
    return found
