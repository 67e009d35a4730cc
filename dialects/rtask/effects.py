"""Effects on memory, from which MLIR's passes know what they may merge, move and remove.

On tensors an rOperator has none: equal ones are merged by ``cse``, and those that nobody reads are
removed by ``canonicalize``. On memrefs it reads and writes its operands, and nothing else.
"""

from typing import Any

from rammer_mlir.bindings import ir

PLACED = "rtask.placed"
"""Attribute of a function, whose rOperators have places for their results.

``rtask-insert-copies`` sets it: from there on, two parts of a concatenation have to be computed by
two rOperators, also if these are equal.
"""


class BufferEffects(ir.MemoryEffectsOpInterface):
    """Reads and writes of all operands that are memrefs, and none for tensors without places.

    Which operands are written stands in the descriptions of the rKernels; looking them up for each
    question would take a search of the module.
    """

    @staticmethod
    def get_effects(op: Any, effects: Any) -> None:
        """Add the effects of an operation."""
        operation = op.operation
        if _is_placed(operation):
            effects.append(ir.MemoryEffect.Write)
        for value, operand in zip(operation.operands, operation.op_operands, strict=True):
            if isinstance(value.type, ir.MemRefType):
                effects.append(ir.MemoryEffect.Read, operand)
                effects.append(ir.MemoryEffect.Write, operand)


def _is_placed(op: Any) -> bool:
    parent = op.parent
    return parent is not None and PLACED in parent.operation.attributes
