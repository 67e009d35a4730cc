"""Declares memory effects of operations, so that MLIR may merge, move and remove them.

On tensors an rOperator has no effects: ``cse`` merges equal ones, and ``canonicalize`` removes
unused ones. On memrefs it reads and writes its operands, and nothing else.
"""

from typing import Any

from rammer_mlir.bindings import ir

PLACED = "rtask.placed"
"""Attribute of a function whose rOperators have buffers assigned to their results.

``rtask-insert-copies`` sets it. From then on, two equal parts of a concatenation must stay two
rOperators, because each writes its own part of the buffer.
"""


class BufferEffects(ir.MemoryEffectsOpInterface):
    """The memory effects of rOperators and runs: they read and write all operands on memrefs.

    On tensors there are no effects, unless the function has the attribute ``rtask.placed``. All
    memref operands count as written: the ``rtask.kernel`` lists those that really are, but looking
    it up at each query would search the module.
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
