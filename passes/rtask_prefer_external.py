"""`rtask-prefer-external`: removes the compiler's rKernels where an external one exists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.dialects.rtask.external import read_external
from rammer_mlir.passes.base import Form, Pass
from rammer_mlir.passes.ir.code_modules import erase_unused_kernels
from rammer_mlir.passes.ir.entry import entry_block
from rammer_mlir.passes.ir.kernels import described_kernels


@dataclass(frozen=True)
class PreferExternal(Pass):
    """Remove the compiler's candidates of rOperators that also have external candidate rKernels.

    rKernels that are no longer candidates are erased. Without this pass, the policy chooses between
    external rKernels and the compiler's own by their costs. The pass runs on buffers, because only
    bufferization shows which external rKernels support the operands' strides.
    """

    name: ClassVar[str] = "rtask-prefer-external"
    takes: ClassVar[Form | None] = Form.BUFFERS

    def run(self, module: ir.Module) -> None:
        """Remove the compiler's own candidates of each rOperator that has external candidates."""
        described = described_kernels(module)
        named: set[str] = set()
        for op in entry_block(module).operations:
            if op.operation.name != "rtask.operator":
                continue
            candidates = list(ir.ArrayAttr(op.operation.attributes["kernels"]))
            external = [
                name
                for name in candidates
                if read_external(described[ir.FlatSymbolRefAttr(name).value].operation)
            ]
            if external:
                op.operation.attributes["kernels"] = ir.ArrayAttr.get(external)
            named.update(ir.FlatSymbolRefAttr(name).value for name in external or candidates)
        # Erase rKernels without an rOperator, which would be compiled and measured in vain.
        erase_unused_kernels(module, named)
