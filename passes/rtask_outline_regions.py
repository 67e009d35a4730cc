"""`rtask-outline-regions`: regions become private functions that the entry function calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from rammer_mlir.bindings import func, ir
from rammer_mlir.passes.base import Form, Pass
from rammer_mlir.passes.ir.block_order import sort_block
from rammer_mlir.passes.ir.cloning import ValueMap, clone_into
from rammer_mlir.passes.ir.entry import CODEGEN, COMPOSITE, entry_block
from rammer_mlir.passes.ir.outline import Outliner, clone_constants
from rammer_mlir.passes.ir.structured import captured_values
from rammer_mlir.passes.regions.annotations import READING, REGION, Mark, remove_mark
from rammer_mlir.passes.regions.codegen import CODEGENS
from rammer_mlir.passes.regions.reading_attribute import reading_attribute
from rammer_mlir.passes.regions.region_graph import RegionGraph
from rammer_mlir.passes.regions.units import Unit


@dataclass(frozen=True)
class OutlineRegions(Pass):
    """Move each region into a function with ``rtask.codegen``, and its composites into functions.

    Equal regions share a function, and so do equal composites. Composites outside of regions are
    dissolved into single operations. If the code generator's ``pads_apart`` is True, ``tensor.pad``
    operations on the region's inputs stay outside of the function.
    """

    name: ClassVar[str] = "rtask-outline-regions"
    takes: ClassVar[Form | None] = Form.TENSORS

    def run(self, module: ir.Module) -> None:
        """Replace each region of the entry function by a call; equal regions share a function."""
        graph = RegionGraph.of(module)
        graph.quotient()
        regions = graph.regions()
        for unit in graph.units:
            for attribute in (COMPOSITE, REGION):
                remove_mark(unit.operations, attribute)
        outliner = Outliner(module)
        for mark, numbers in regions.items():
            # Read again: an earlier region has become a call, whose results are new values.
            is_apart = bool(getattr(CODEGENS.find(mark.name), "pads_apart", False))
            units = (graph.units[number] for number in numbers)
            region = RegionGraph([_without_pads(u) if is_apart else replace(u) for u in units])
            if region.outputs(range(len(numbers))):
                _Call(region, outliner).create(mark)
        sort_block(entry_block(module))


@dataclass(frozen=True)
class _Call:
    """Replaces a region by a call of a function with the region's operations (``create``).

    ``region`` is a graph of this region's units only; ``outliner`` creates the called function.
    """

    region: RegionGraph
    outliner: Outliner

    def create(self, mark: Mark) -> None:
        """Move the region into a function for the code generator ``mark.name`` and call it."""
        units = self.region.units
        numbers = range(len(units))
        inputs, outputs = self.region.inputs(numbers), self.region.outputs(numbers)

        def body(arguments: Sequence[ir.Value]) -> list[ir.Value]:
            mapping: ValueMap = dict(zip(inputs, arguments, strict=True))
            for unit in units:
                self._emit(unit, mapping)
            return [mapping[value] for value in outputs]

        types = [value.type for value in inputs]
        main = max(units, key=lambda unit: unit.macs)
        # The function has a location, so that errors about its code name an operation.
        name = self.outliner.function(
            mark.name, types, body, {CODEGEN: ir.StringAttr.get(mark.name)}, main.root.location
        )
        self._replace(name, inputs, outputs, main.root.location)

    def _replace(
        self,
        name: str,
        inputs: Sequence[ir.Value],
        outputs: Sequence[ir.Value],
        location: ir.Location,
    ) -> None:
        units = self.region.units
        with ir.InsertionPoint(units[-1].root), location:
            call = func.CallOp([value.type for value in outputs], name, list(inputs))
        for old, new in zip(outputs, call.results, strict=True):
            old.replace_all_uses_with(new)
        for unit in reversed(units):
            for op in reversed(unit.operations):
                op.erase()

    def _emit(self, unit: Unit, mapping: ValueMap) -> None:
        """Clone a unit at the current insertion point, or emit a call if it is a composite.

        The called function contains the composite's operations; it is new unless an equal function
        exists. ``mapping`` maps old to new values; the unit's results are added to the mapping.
        """
        if unit.composite is None:
            _clone(unit, mapping)
            return

        def body(arguments: Sequence[ir.Value]) -> list[ir.Value]:
            inner: ValueMap = dict(zip(unit.inputs, arguments, strict=True))
            _clone(unit, inner)
            return [inner[value] for value in unit.outputs]

        attributes: dict[str, ir.Attribute] = {COMPOSITE: ir.StringAttr.get(unit.composite.name)}
        if unit.readings:
            attributes[READING] = reading_attribute(unit.readings)
        types = [value.type for value in unit.inputs]
        name = self.outliner.function(unit.composite.name, types, body, attributes)
        call = func.CallOp(
            [value.type for value in unit.outputs],
            name,
            [mapping[value] for value in unit.inputs],
            loc=unit.root.location,
        )
        mapping.update(zip(unit.outputs, call.results, strict=True))


def _without_pads(unit: Unit) -> Unit:
    """Return a unit without each ``tensor.pad`` whose source is computed outside of the unit."""
    inside = set(unit.operations)

    def is_pad(op: ir.Operation) -> bool:
        owner = op.operands[0].owner if op.name == "tensor.pad" else None
        return owner is not None and (isinstance(owner, ir.Block) or owner.operation not in inside)

    return replace(unit, operations=tuple(op for op in unit.operations if not is_pad(op)))


def _clone(unit: Unit, mapping: ValueMap) -> None:
    """Clone a unit's operations, and constants that they use, at the current insertion point.

    ``mapping`` maps old to new values and is extended.
    """
    ip = ir.InsertionPoint.current
    for op in unit.operations:
        for value in [*op.operands, *captured_values(op.opview)]:
            clone_constants(value, mapping, ip)
        clone_into(op.opview, mapping, ip)
