"""`rtask-vectorize-kernels`: turns rKernels on memrefs into loops on vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.errors import OptionError
from rammer_mlir.lowering.cpu.kernels_to_llvm import vector_steps
from rammer_mlir.lowering.llvm.machine import MULTIPLY_WORDS, VNNI
from rammer_mlir.passes.base import OperationError, Pass
from rammer_mlir.passes.ir.entry import functions


@dataclass(frozen=True)
class VectorizeKernels(Pass):
    """Turn linalg ops on memrefs into register-tiled loops on vectors of ``vector_bits`` bits.

    ``vector_bits`` is 128, 256 or 512. ``byte_products`` names the instruction that multiplies
    8-bit integers and adds four adjacent products: ``vpdpbusd`` (VNNI), ``pmaddwd``, or none if
    empty.
    """

    name: ClassVar[str] = "rtask-vectorize-kernels"

    vector_bits: int = 512
    byte_products: str = ""

    def check_options(self) -> None:
        """Raise ``OptionError`` if ``vector_bits`` or ``byte_products`` has an unknown value."""
        if self.vector_bits not in (128, 256, 512):
            raise OptionError(
                f"{self.name}: vector-bits: expected 128, 256 or 512, found {self.vector_bits}"
            )

        if self.byte_products not in ("", VNNI, MULTIPLY_WORDS):
            raise OptionError(
                f"{self.name}: byte-products: expected {VNNI}, {MULTIPLY_WORDS} or none, "
                f"found '{self.byte_products}'"
            )

    def run(self, module: ir.Module) -> None:
        """Vectorize every rKernel of the module.

        Raises:
            OperationError: if an rKernel is on tensors.
        """
        for function in functions(module):
            kind = ir.TypeAttr(function.operation.attributes["function_type"]).value
            if "tensor<" in str(kind):
                raise OperationError(
                    function, "expected rKernels on memrefs, found tensors: run rtask-bufferize"
                )
        for step in vector_steps(self.vector_bits, byte_products=self.byte_products):
            step.apply(module)
