"""Declares memory effects of operations, so that MLIR may merge, move and remove them.

On tensors an rOperator has no effects: ``cse`` merges equal rOperators, and ``canonicalize``
removes unused rOperators. On memrefs an rOperator reads and writes its operands, and no other
memory.
"""

from typing import Any

from rammer_mlir.bindings import ir

PLACED = "rtask.placed"
"""Attribute of a function whose rOperators have buffers assigned to their results.

``rtask-insert-copies`` sets the attribute. From then on, two equal parts of a concatenation must
stay two rOperators, because each rOperator writes its own part of the buffer.
"""


class BufferEffects(ir.MemoryEffectsOpInterface):
    """The memory effects of ``rtask.operator`` and ``rtask.run``: all memrefs are read and written.

    Every memref operand counts as written. The ``rtask.kernel`` lists the operands that are
    written, but finding the ``rtask.kernel`` at each query would search the module.

    An operation on tensors has no effects. But in a function with the attribute ``rtask.placed``
    (results have fixed places, see ``rtask-insert-copies``), every operation also writes
    unspecified memory, so that passes do not merge equal rOperators.
    """

    @staticmethod
    def get_effects(op: Any, effects: Any) -> None:
        """Append the memory effects of the operation ``op`` to the list ``effects``."""
        operation = op.operation
        if _is_placed(operation):
            # A write to unspecified memory keeps ``cse`` and ``canonicalize`` from merging the
            # operation.
            effects.append(ir.MemoryEffect.Write)
        for value, operand in zip(operation.operands, operation.op_operands, strict=True):
            if isinstance(value.type, ir.MemRefType):
                effects.append(ir.MemoryEffect.Read, operand)
                effects.append(ir.MemoryEffect.Write, operand)


def _is_placed(op: Any) -> bool:
    parent = op.parent
    return parent is not None and PLACED in parent.operation.attributes
