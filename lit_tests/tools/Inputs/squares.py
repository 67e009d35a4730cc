"""A code generator for squares of elements: an rTask for each region, in LLVM IR."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rammer_mlir.codegens import (
    CompositePattern,
    Device,
    Limits,
    Reading,
    Region,
    RegionCode,
    RegionFacts,
    register_codegen,
)

SOURCE = """
define i32 @{name}(i64 %rtask, ptr %x, ptr %y) {{
  %a = load <4 x float>, ptr %x, align 4
  %b = fmul <4 x float> %a, %a
  store <4 x float> %b, ptr %y, align 4
  ret i32 0
}}
"""


class Squares:
    """Takes products of four elements with themselves."""

    name: ClassVar[str] = "squares"
    min_macs: ClassVar[int] = 0

    def patterns(self) -> Sequence[CompositePattern]:
        """Return no pattern."""
        return []

    def supports(self, reading: Reading) -> bool:
        """Take products of four elements of f32."""
        output = reading.output
        return reading.kind == "mul" and (output.shape, output.element_type) == ((4,), "f32")

    def limits(self) -> Limits:
        """Hold one operation."""
        return Limits(operations=1)

    def worth(self, facts: RegionFacts, device: Device) -> bool:
        """Take all regions."""
        return True

    def generate(self, region: Region) -> RegionCode | None:
        """Write a function of a single rTask, unless the factors differ."""
        if len(region.inputs) > 1:
            return None
        return RegionCode(SOURCE.format(name=region.name), symbol=region.name, form="llvm")


register_codegen(Squares())
