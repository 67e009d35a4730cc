"""Toy code generators for convolutions and their activations, for all operations, for additions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.codegens import (
    Box,
    Codegen,
    CompositePattern,
    Device,
    Layouts,
    Limits,
    Reading,
    Region,
    RegionCode,
    RegionFacts,
    constant,
    op,
    register_codegen,
    wildcard,
)


class Toy:
    """Takes convolutions, additions and activations."""

    name: ClassVar[str] = "toy"

    def patterns(self) -> Sequence[CompositePattern]:
        """Return the example of the paper: convolution, addition and relu."""
        conv = op("conv2d", wildcard("x"), constant("w"))
        biased = conv.optional(lambda c: op("add", c, constant("b")))
        return [CompositePattern("toy.conv_add_relu", op("relu", biased))]

    def supports(self, reading: Reading) -> bool:
        """Take operations of these kinds on f32."""
        return (
            reading.kind in ("conv2d", "add", "max_pool") and reading.output.element_type == "f32"
        )

    def limits(self) -> Limits:
        """Hold as much as there is."""
        return Limits()

    def worth(self, facts: RegionFacts, device: Device) -> bool:
        """Take everything."""
        return True


class Greedy(Toy):
    """Takes every operation that has a reading."""

    name: ClassVar[str] = "greedy"

    def patterns(self) -> Sequence[CompositePattern]:
        """Return no pattern."""
        return []

    def supports(self, reading: Reading) -> bool:
        """Take everything."""
        return True


class Small(Toy):
    """Holds two operations at most, and is not worth it for fewer than 1,000 multiplications."""

    name: ClassVar[str] = "small"

    def patterns(self) -> Sequence[CompositePattern]:
        """Return no pattern."""
        return []

    def limits(self) -> Limits:
        """Hold two operations."""
        return Limits(operations=2)

    def worth(self, facts: RegionFacts, device: Device) -> bool:
        """Take regions with enough multiplications."""
        return facts.macs >= 1000


class Writer(Toy):
    """Writes code of additions: an rTask for each of the first dimension's elements."""

    name: ClassVar[str] = "writer"

    def patterns(self) -> Sequence[CompositePattern]:
        """Return no pattern."""
        return []

    def supports(self, reading: Reading) -> bool:
        """Take additions and products of elements."""
        return reading.kind in ("add", "mul")

    def generate(self, region: Region) -> RegionCode | None:
        """Name the operations in the code; leave products to the host."""
        names = [operation.name for operation in region.operations]
        if names == ["mul"]:
            return None
        row: Box = [("d0", 1), (0, 8)]
        return RegionCode(
            f"int32_t f(); /* {names} {region.results} */", "f", num_rtasks=4, writes={0: row}
        )


class Blocks(Toy):
    """Takes single operations, and their images in blocks of channels."""

    name: ClassVar[str] = "blocks"

    def patterns(self) -> Sequence[CompositePattern]:
        """Return no pattern."""
        return []

    def supports(self, reading: Reading) -> bool:
        """Take functions and pools."""
        return reading.kind in ("tanh", "exp")

    def limits(self) -> Limits:
        """Hold one operation."""
        return Limits(operations=1)

    def layouts(self, region: Region) -> Layouts:
        """Take images of a multiple of 16 channels in blocks."""
        inputs, outputs = (
            {
                number: 1
                for number, kind in enumerate(kinds)
                if (shaped := ir.RankedTensorType(kind)).rank == 4 and shaped.shape[1] % 16 == 0
            }
            for kinds in (region.inputs, region.outputs)
        )
        return Layouts(inputs, outputs)


TOYS: tuple[Codegen, ...] = (Toy(), Greedy(), Small(), Writer(), Blocks())

for toy in TOYS:
    register_codegen(toy)
