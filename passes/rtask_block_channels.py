"""`rtask-block-channels`: stores activations of convolutions in blocks of channels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.passes.base import Form, Pass
from rammer_mlir.passes.channels.blocking import ChannelBlocker, copy_packed
from rammer_mlir.passes.channels.layout import choose_layouts
from rammer_mlir.passes.ir.entry import CODEGEN, entry_block, functions
from rammer_mlir.passes.weights.derived import DerivedWeights


@dataclass(frozen=True)
class BlockChannels(Pass):
    """Store activations as [N, C / 16, H, W, 16] from one convolution to the next.

    A convolution then loads and stores whole registers, and reads sixteen channels of a pixel from
    one cache line instead of from sixteen pages (NCHWc, as in Liu et al., *Optimizing CNN Model
    Inference on CPUs*, USENIX ATC 2019). Where regions exchange activations by ``linalg.pack`` and
    ``linalg.unpack`` with such blocks, these operations are eliminated or become copies.
    """

    name: ClassVar[str] = "rtask-block-channels"
    takes: ClassVar[Form | None] = Form.TENSORS

    def run(self, module: ir.Module) -> None:
        """Store activations of the entry function in channel blocks where that saves time."""
        weights = DerivedWeights(module)
        operations = list(entry_block(module).operations)
        blocker = ChannelBlocker(choose_layouts(operations, weights), weights)
        for op in operations:
            blocker.rewrite(op)
        blocker.finish()
        weights.finish()
        for function in functions(module):
            if CODEGEN in function.operation.attributes:
                for op in list(function.operation.regions[0].blocks[0].operations):
                    copy_packed(op)
