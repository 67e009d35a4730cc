"""Rejects rOperators with too large tensors or too many rTasks, early in a compilation."""

from __future__ import annotations

from math import prod

from rammer_mlir.bindings import ir
from rammer_mlir.passes.base import OperationError
from rammer_mlir.passes.ir.structured import element_bytes

MOST_BYTES = 1 << 40
"""Maximum bytes of a tensor: 1 TiB, more than the memory of a machine."""

MOST_RTASKS = 1 << 18
"""Maximum number of rTasks of an rOperator; compiling a schedule with more takes over 15 s."""


def check_tensor_sizes(op: ir.OpView) -> None:
    """Check that no operand or result of an rOperator has more than ``MOST_BYTES`` bytes.

    Raises:
        OperationError: if a tensor is larger; the message contains its type.
    """
    for value in (*op.operation.operands, *op.operation.results):
        kind = value.type
        if isinstance(kind, ir.RankedTensorType):
            found = prod(kind.shape) * element_bytes(kind)
            if found > MOST_BYTES:
                raise OperationError(
                    op,
                    f"expected tensors of at most {MOST_BYTES} bytes, found {kind} of {found}; "
                    "give smaller shapes",
                )


def check_number_of_rtasks(op: ir.OpView, fewest: int) -> None:
    """Check that an rOperator needs no more than ``MOST_RTASKS`` rTasks.

    ``fewest`` is the least count of rTasks among the candidate rKernels of ``op``.

    Raises:
        OperationError: if ``fewest`` is larger than ``MOST_RTASKS``; the message contains
            ``fewest``.
    """
    if fewest > MOST_RTASKS:
        raise OperationError(
            op,
            f"expected an rOperator of at most {MOST_RTASKS} rTasks, found {fewest}; give smaller "
            "shapes, or more work to each rTask",
        )
