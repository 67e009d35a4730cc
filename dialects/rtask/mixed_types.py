"""Defines operations with any number of operands and results whose types may differ.

IRDL gives all values of a variadic operand one type, unless each value is a separate segment. IRDL
then requires the attributes ``operandSegmentSizes`` and ``resultSegmentSizes``, which clutter the
text. Therefore ``verify_invariants``, which MLIR calls before IRDL's own verifier, adds the
attributes, and ``verify_region_invariants``, which MLIR calls after IRDL's, removes them.
"""

from collections.abc import Callable, Sequence
from typing import Any

from rammer_mlir.bindings import ext, ir
from rammer_mlir.dialects.rtask.diagnostics import Broken, verified
from rammer_mlir.dialects.rtask.dialect import RTask

MOST_VALUES = 96
"""Maximum number of operands, and of results, of a ``MixedTypesOp``."""

_SEGMENTS = ("operandSegmentSizes", "resultSegmentSizes")
_OPERANDS = {f"operand_{i}": Sequence[ext.Operand[Any]] for i in range(MOST_VALUES)}
_RESULTS = {f"result_{i}": Sequence[ext.Result[Any]] for i in range(MOST_VALUES)}


class MixedTypesOp(RTask.Operation):
    """Base class of operations that have operands and results of any types.

    There are at most ``MOST_VALUES`` operands and at most ``MOST_VALUES`` results.
    """

    __annotations__ = _OPERANDS | _RESULTS

    @staticmethod
    def verify_region_invariants(op: ir.OpView) -> bool:
        """Remove ``operandSegmentSizes`` and ``resultSegmentSizes``; return True.

        Only IRDL's own verifier needs these attributes, and MLIR has run it before this method.
        """
        attributes = op.operation.attributes
        for key in _SEGMENTS:
            if key in attributes:
                del attributes[key]
        return True


def verified_with_segments(op: ir.Operation, check: Callable[[ir.Operation], None]) -> bool:
    """Run ``check`` on an operation, add the attributes for IRDL's verifier, and return True.

    The attributes are ``operandSegmentSizes`` and ``resultSegmentSizes``. If the operation has
    more than ``MOST_VALUES`` operands or results, or if ``check`` raises ``Broken``, emit a
    diagnostic, add no attributes and return False.
    """

    def checks() -> None:
        for values, what in ((op.operands, "operands"), (op.results, "results")):
            if len(values) > MOST_VALUES:
                raise Broken(
                    op, f"at most {MOST_VALUES} {what}", len(values), "the dialect has no more"
                )
        check(op)
        write_segments(op)

    return verified(checks)


def write_segments(op: ir.Operation) -> None:
    """Set ``operandSegmentSizes`` and ``resultSegmentSizes``, which IRDL's verifier requires.

    Each operand and each result is a segment of size 1. Segments of size 0 fill both lists up to
    ``MOST_VALUES`` entries.
    """
    for key, values in zip(_SEGMENTS, (op.operands, op.results), strict=True):
        sizes = [1] * len(values) + [0] * (MOST_VALUES - len(values))
        op.attributes[key] = ir.DenseI32ArrayAttr.get(sizes, op.context)
