"""`rtask-match-composites`: marks operations that a code generator computes together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.errors import OptionError
from rammer_mlir.passes.base import Form, Pass
from rammer_mlir.passes.ir.entry import COMPOSITE
from rammer_mlir.passes.regions.annotations import Mark, set_mark
from rammer_mlir.passes.regions.codegen import CODEGENS, patterns_of
from rammer_mlir.passes.regions.matching import Composite, ReadingGraph, find_composites
from rammer_mlir.passes.regions.patterns import CompositePattern
from rammer_mlir.passes.regions.reading import Reading
from rammer_mlir.passes.regions.readings import forget_readings
from rammer_mlir.passes.regions.region_graph import RegionGraph
from rammer_mlir.passes.regions.scripts import apply_script
from rammer_mlir.passes.regions.units import Unit


@dataclass(frozen=True)
class MatchComposites(Pass):
    """Set ``rtask.composite`` on the matches of code generators' patterns.

    ``table`` names code generators, all of whose patterns are tried. Among overlapping matches, the
    match with the highest priority is taken; among equal priorities, the largest match; among equal
    sizes, the last match. ``script`` is a file with a transform script, which runs first:
    operations that it annotates become composites.
    """

    name: ClassVar[str] = "rtask-match-composites"
    takes: ClassVar[Form | None] = Form.TENSORS
    only_marks: ClassVar[bool] = True

    table: tuple[str, ...] = ()
    script: str = ""

    def check_options(self) -> None:
        """Raise an OptionError if neither ``table`` nor ``script`` is given."""
        if not self.table and not self.script:
            raise OptionError(
                f"'{self.name}': expected table=CODEGEN,... or script=FILE, found neither"
            )

    def run(self, module: ir.Module) -> None:
        """Mark matches of patterns in the entry function as composites; keep existing marks."""
        patterns = [p for name in self.table for p in patterns_of(CODEGENS.get(name))]
        if self.script:
            apply_script(module, Path(self.script))
            forget_readings()
        units = RegionGraph.of(module).units
        number = max((u.composite.number + 1 for u in units if u.composite), default=0)
        for composite in _composites(units, patterns):
            operations = [
                op
                for reading in composite.match.readings
                for op in reading.operations
                if isinstance(op, ir.Operation)
            ]
            set_mark(operations, COMPOSITE, Mark(composite.name, number))
            number += 1


def _composites(units: Sequence[Unit], patterns: Sequence[CompositePattern]) -> list[Composite]:
    """Return non-overlapping matches of patterns.

    A match contains only recognized operations that are not yet in a composite. Of overlapping
    matches, ``find_composites`` chooses one, by the pattern's priority first.
    """
    readings = [_only_reading(unit) for unit in units]
    known = [reading for reading in readings if reading is not None]
    return find_composites(ReadingGraph(known, _used_elsewhere(units)), patterns)


def _only_reading(unit: Unit) -> Reading | None:
    return None if unit.composite is not None or not unit.readings else unit.readings[0]


def _used_elsewhere(units: Sequence[Unit]) -> set[ir.Value]:
    """Return the results of units that a new composite must also return if it computes them.

    The result contains the values that the block returns, and the values that units outside of all
    matches use. Units outside of all matches are existing composites and unrecognized operations.
    """
    inside = {op for unit in units if _only_reading(unit) is not None for op in unit.operations}
    return {
        value
        for unit in units
        for value in unit.outputs
        if any(use.owner.operation not in inside for use in value.uses)
    }
