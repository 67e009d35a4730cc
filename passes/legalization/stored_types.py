"""Lists unsupported element types, and the supported types in which they are stored.

| element type | tensors | computed in |
| --- | --- | --- |
| complex numbers | two, of real and of imaginary parts | their parts |
| floats of at most 8 bits | one of bytes | f32 |
| integers of other widths than 1, 8, 16, 32 and 64 | one of the next wider integers | that width |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rammer_mlir.bindings import arith, ir
from rammer_mlir.passes.ir.element_types import (
    NARROW_FLOATS,
    SUPPORTED,
    is_packed,
    stored_width,
)

_BYTE = 8


class Storage(Protocol):
    """The storage of an unsupported element type: one tensor for each part of the elements."""

    @property
    def parts(self) -> Sequence[ir.Type]:
        """The element types of the tensors that together store the elements."""
        ...

    def load(self, parts: Sequence[ir.Value]) -> ir.Value:
        """Emit an element from its parts, one from each tensor of the storage, and return it."""
        ...

    def store(self, value: ir.Value) -> list[ir.Value]:
        """Emit and return the parts of ``value``, one for each tensor of the storage.

        The parts of an element are scalars; the parts of a tensor are tensors of the same shape.
        """
        ...


def like(kind: ir.Type, element: ir.Type) -> ir.Type:
    """Return the type ``kind`` with another element type.

    For a tensor type, the result has the same shape and the element type ``element``; for any other
    type, it is ``element`` itself.
    """
    if isinstance(kind, ir.RankedTensorType):
        return ir.RankedTensorType.get(kind.shape, element)
    return element


def storage_of(element: ir.Type) -> Storage | None:
    """Return the storage of an unsupported element type.

    Return None for supported types, and for unsupported types that have no storage.
    """
    if isinstance(element, ir.ComplexType):
        return _Complex(element) if isinstance(element.element_type, ir.FloatType) else None
    if isinstance(element, ir.FloatType):
        return _Float(element) if str(element) in NARROW_FLOATS else None
    if isinstance(element, ir.IntegerType) and str(element) not in SUPPORTED:
        return _Integer(element) if element.is_signless and element.width < 64 else None
    return None


@dataclass(frozen=True)
class _Complex:
    element: ir.ComplexType

    @property
    def parts(self) -> Sequence[ir.Type]:
        return (self.element.element_type, self.element.element_type)

    def load(self, parts: Sequence[ir.Value]) -> ir.Value:
        real, imaginary = parts
        return ir.Operation.create("complex.create", [self.element], [real, imaginary]).results[0]

    def store(self, value: ir.Value) -> list[ir.Value]:
        return [
            ir.Operation.create(name, [like(value.type, self.parts[0])], [value]).results[0]
            for name in ("complex.re", "complex.im")
        ]


@dataclass(frozen=True)
class _Float:
    element: ir.FloatType

    @property
    def parts(self) -> Sequence[ir.Type]:
        return (ir.IntegerType.get_signless(_BYTE),)

    def load(self, parts: Sequence[ir.Value]) -> ir.Value:
        (bits,) = parts
        if self.element.width < _BYTE:
            bits = arith.trunci(ir.IntegerType.get_signless(self.element.width), bits)
        return arith.bitcast(self.element, bits)

    def store(self, value: ir.Value) -> list[ir.Value]:
        integer = ir.IntegerType.get_signless(self.element.width)
        bits = arith.bitcast(like(value.type, integer), value)
        if self.element.width == _BYTE:
            return [bits]
        return [arith.extui(like(value.type, self.parts[0]), bits)]


@dataclass(frozen=True)
class _Integer:
    element: ir.IntegerType

    @property
    def parts(self) -> Sequence[ir.Type]:
        return (ir.IntegerType.get_signless(stored_width(self.element.width)),)

    def load(self, parts: Sequence[ir.Value]) -> ir.Value:
        return arith.trunci(self.element, parts[0])

    def store(self, value: ir.Value) -> list[ir.Value]:
        # ml_dtypes leaves the free bits of its integers 0, NumPy's integers have signs.
        widen = arith.extui if is_packed(self.element.width) else arith.extsi
        return [widen(like(value.type, self.parts[0]), value)]
