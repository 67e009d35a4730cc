"""Finds the weights of an entry function, and reads the values of weights and constants.

The module also describes the operands of recognized operations such as convolutions (``Reading``).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.constants import ConstantArgument, constant_arguments
from rammer_mlir.passes.ir.entry import entry_function
from rammer_mlir.passes.ir.reshapes import RESHAPES
from rammer_mlir.passes.ir.structured import is_constant, shape_of
from rammer_mlir.passes.regions.expressions import scalar_constant
from rammer_mlir.passes.regions.reading import Operand

Weights = Mapping[ir.Value, ConstantArgument]
"""The weights of an entry function, by the values of their arguments."""


def weights_of(module: ir.Module) -> Weights:
    """Return the weights among the arguments of a module's entry function, by argument."""
    return {weight.value: weight for weight in constant_arguments(entry_function(module))}


def operand_of(value: ir.Value, weights: Weights) -> Operand:
    """Return a description of a value as an operand; ``weights`` count as constants."""
    kind = value.type
    element = kind.element_type if isinstance(kind, ir.RankedTensorType) else kind
    return Operand(value, tuple(shape_of(value)), str(element), _is_known(value, weights))


def _is_known(value: ir.Value, weights: Weights) -> bool:
    """Whether a value is a weight, a constant in the IR, or a reshape of one of them."""
    if value in weights or is_constant(value):
        return True
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name not in RESHAPES:
        return False
    return _is_known(owner.operands[0], weights)


def number_of(operand: Operand) -> float | None:
    """Return the value of a scalar constant in the IR as a float; None for any other operand."""
    if operand.shape or not isinstance(operand.value, ir.Value):
        return None
    value: ir.Value = operand.value
    return scalar_constant(value)


def splat_of(operand: Operand) -> float | None:
    """Return the common value of all elements of a splat constant in the IR.

    Return None for any other operand.
    """
    owner = operand.value.owner if isinstance(operand.value, ir.Value) else None
    if not isinstance(owner, ir.Operation | ir.OpView) or owner.operation.name != "arith.constant":
        return None
    attribute = owner.operation.attributes["value"]
    if not isinstance(attribute, ir.DenseElementsAttr) or not attribute.is_splat:
        return None
    element = attribute.get_splat_value()
    return float(element.value) if isinstance(element, ir.FloatAttr | ir.IntegerAttr) else None


def uniform_of(operand: Operand) -> float | None:
    """Return the value of a scalar constant, or the common value of a splat constant's elements.

    The constant must be in the IR. Return None for any other operand, such as a weight.
    """
    number = number_of(operand)
    return splat_of(operand) if number is None else number


def array_of(value: ir.Value, weights: Weights) -> NDArray[np.generic] | None:
    """Return the content of a scalar constant or of a weight as an array.

    Return None for any other value. Also return None for a weight whose content the IR does not
    store, or that is derived from stored content by transformations at compile time.
    """
    number = scalar_constant(value)
    if number is not None:
        return np.asarray(number)
    weight = weights.get(value)
    return weight.held if weight is not None and not weight.steps else None
