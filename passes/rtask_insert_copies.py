"""`rtask-insert-copies`: copies where a tensor cannot live where it is wanted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.passes.base import Pass
from rammer_mlir.passes.fusion.grouping import is_cloned
from rammer_mlir.passes.fusion.placement import Conflict, place
from rammer_mlir.passes.ir.entry import entry_block
from rammer_mlir.passes.ir.outline import Outliner, clone_constants, create_operator


@dataclass(frozen=True)
class InsertCopies(Pass):
    """Copy tensors that views, concatenations or results cannot use in place.

    Afterwards every view can be expressed by strides and every concatenated or returned tensor is
    computed directly in the buffer that it ends up in.
    """

    name: ClassVar[str] = "rtask-insert-copies"

    def run(self, module: ir.Module) -> None:
        """Insert copying rOperators until no conflict is left."""
        outliner = Outliner(module)
        while conflicts := place(entry_block(module)).conflicts:
            for conflict in conflicts:
                _copy_operand(conflict, outliner)


def _copy_operand(conflict: Conflict, outliner: Outliner) -> None:
    user = conflict.user.operation
    value = user.operands[conflict.index]
    owner = value.owner
    constant = not isinstance(owner, ir.Block) and is_cloned(owner.opview)

    def body(arguments: Sequence[ir.Value]) -> list[ir.Value]:
        if not constant:
            return list(arguments)
        mapping: dict[ir.Value, ir.Value] = {}
        clone_constants(value, mapping, ir.InsertionPoint.current)
        return [mapping[value]]

    inputs = [] if constant else [value]
    kernel = outliner.function("constant" if constant else "copy", [v.type for v in inputs], body)
    location = user.location if isinstance(owner, ir.Block) else owner.location
    call = create_operator(kernel, inputs, [value.type], location, ir.InsertionPoint(user))
    user.operands[conflict.index] = call.results[0]
