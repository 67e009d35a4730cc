"""`rtask-recompute-temporaries`: recomputes an elementwise value once for each of its readers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.passes.base import Form, Pass, check_least
from rammer_mlir.passes.ir.entry import computations
from rammer_mlir.passes.ir.structured import Structured, is_generic


@dataclass(frozen=True)
class RecomputeTemporaries(Pass):
    """Clone elementwise operations inside rOperators, one clone for each reader of the result.

    Without this pass, a value that is read more than once is a temporary of its rTask. After this
    pass, each clone has a single reader, and `linalg-fuse-elementwise-ops` fuses the clone into
    this reader. This corresponds to the ablation without temporaries in table 1 of Dali. Results of
    reductions and products remain temporaries. So do values whose clones would increase the count
    of an rOperator's operations by more than the factor ``growth``.
    """

    name: ClassVar[str] = "rtask-recompute-temporaries"
    takes: ClassVar[Form | None] = Form.TENSORS

    growth: int = 8

    def check_options(self) -> None:
        """Raise an OptionError if ``growth`` is below 1."""
        check_least(self, 1, "growth")

    def run(self, module: ir.Module) -> None:
        """Clone elementwise operations in every rOperator's function, one clone for each reader."""
        for function in computations(module):
            for region in function.operation.regions:
                for block in region.blocks:
                    _clone_for_readers(block, self.growth)


def _clone_for_readers(block: ir.Block, growth: int) -> None:
    operations = list(block.operations)
    room = (growth - 1) * len(operations)
    for op in reversed(operations):  # readers first: clones multiply the uses of their operands
        if not is_generic(op) or len(op.operation.results) != 1:
            continue
        if not Structured(op).is_elementwise:
            continue
        others = list(op.operation.results[0].uses)[1:]
        if len(others) > room:
            continue
        room -= len(others)
        for use in others:
            copy = op.operation.clone(ip=ir.InsertionPoint(op.operation)).operation
            use.owner.operation.operands[use.operand_number] = copy.results[0]
