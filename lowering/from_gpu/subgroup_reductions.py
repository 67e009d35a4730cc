"""Expands reductions over the lanes of a subgroup into shuffles, which both GPU targets have."""

from __future__ import annotations

import re

from rammer_mlir.bindings import arith, ir
from rammer_mlir.lowering.gpu.lane_reductions import exchange, has_exchange
from rammer_mlir.passes.base import OperationError

_COMBINERS = {
    "add": ("AddFOp", "AddIOp"),
    "mul": ("MulFOp", "MulIOp"),
    "minnumf": ("MinNumFOp", ""),
    "maxnumf": ("MaxNumFOp", ""),
    "minimumf": ("MinimumFOp", ""),
    "maximumf": ("MaximumFOp", ""),
    "minsi": ("", "MinSIOp"),
    "maxsi": ("", "MaxSIOp"),
    "minui": ("", "MinUIOp"),
    "maxui": ("", "MaxUIOp"),
    "and": ("", "AndIOp"),
    "or": ("", "OrIOp"),
    "xor": ("", "XOrIOp"),
}
"""The ``arith`` operations that combine two floats and two integers, by the reduction's kind."""


def expand_subgroup_reduction(operation: ir.Operation, subgroup: int) -> ir.Value:
    """Emit butterfly shuffles instead of a ``gpu.subgroup_reduce``; return the result.

    Every lane of a subgroup, or of a cluster of its lanes, gets the result.

    Args:
        operation: the reduction; not modified.
        subgroup: count of lanes of a subgroup, a power of two.

    Raises:
        OperationError: if the value is not a number that shuffles exchange, for example a vector.
    """
    value = operation.operands[0]
    if not has_exchange(value.type):
        raise OperationError(
            operation, "expected a float of 16, 32 or 64 bits, or an integer of 8, 16, 32 or 64 "
            f"bits, found {value.type}; reduce each element by itself"
        )  # fmt: skip
    stride = _integer(operation, "cluster_stride", 1)
    distance = stride * _integer(operation, "cluster_size", subgroup // stride) // 2
    while distance >= stride:
        value = _combined(operation, value, exchange(value, distance, subgroup))
        distance //= 2
    return value


def _integer(operation: ir.Operation, name: str, default: int) -> int:
    if name not in operation.attributes:
        return default
    return ir.IntegerAttr(operation.attributes[name]).value


def _combined(operation: ir.Operation, first: ir.Value, second: ir.Value) -> ir.Value:
    found = re.search(r"all_reduce_op (\w+)", str(operation.attributes["op"]))
    assert found is not None
    name = _COMBINERS[found[1]][isinstance(first.type, ir.IntegerType)]
    return getattr(arith, name)(first, second).result
