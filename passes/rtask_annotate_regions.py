"""`rtask-annotate-regions`: marks composites and operations as regions of code generators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.errors import OptionError
from rammer_mlir.passes.base import Form, Pass
from rammer_mlir.passes.ir.entry import COMPOSITE
from rammer_mlir.passes.regions.annotations import remove_mark
from rammer_mlir.passes.regions.codegen import (
    Codegen,
    ask,
    codegen_of_composite,
    find_codegen,
)
from rammer_mlir.passes.regions.region_graph import RegionGraph
from rammer_mlir.passes.regions.units import Unit


@dataclass(frozen=True)
class AnnotateRegions(Pass):
    """Set ``rtask.region`` on composites and single operations that a code generator supports.

    ``codegens`` lists code generators in the order of priority: an operation is marked for the
    first code generator that supports it. A composite's name begins with the name of its code
    generator. If this code generator is not among ``codegens``, the composite is dissolved into
    single operations. Existing ``rtask.region`` marks are kept.
    """

    name: ClassVar[str] = "rtask-annotate-regions"
    takes: ClassVar[Form | None] = Form.TENSORS
    only_marks: ClassVar[bool] = True

    codegens: tuple[str, ...] = ()

    def check_options(self) -> None:
        """Raise an OptionError if ``codegens`` is empty."""
        if not self.codegens:
            raise OptionError(f"'{self.name}': expected codegens=NAME,..., found none")

    def run(self, module: ir.Module) -> None:
        """Mark each unit of the entry function as a region if a code generator supports the unit.

        A unit is a composite or a single operation.
        """
        codegens = [find_codegen(name) for name in self.codegens]
        graph = RegionGraph.of(module)
        foreign = [unit for unit in graph.units if self._is_foreign(unit)]
        for unit in foreign:
            remove_mark(unit.operations, COMPOSITE)
        if foreign:
            graph = RegionGraph.of(module)
        regions = [(mark.name, numbers) for mark, numbers in graph.regions().items()]
        for number, unit in enumerate(graph.units):
            codegen = None if unit.region else _codegen_of(unit, codegens)
            if codegen is not None:
                regions.append((codegen, [number]))
        graph.write(regions)

    def _is_foreign(self, unit: Unit) -> bool:
        """Whether a unit is a composite of a code generator that is not in ``codegens``."""
        mark = unit.composite
        return mark is not None and codegen_of_composite(mark.name) not in self.codegens


def _codegen_of(unit: Unit, codegens: Sequence[Codegen]) -> str | None:
    """Return the name of the code generator for which a unit is marked; None if there is none.

    A composite is marked for the code generator whose pattern it matches, any other unit for the
    first of ``codegens`` that supports it.
    """
    if unit.composite is not None:
        return codegen_of_composite(unit.composite.name)
    for codegen in codegens:
        for reading in unit.readings:
            if ask(codegen, "supports", lambda c=codegen, r=reading: c.supports(r)):
                return codegen.name
    return None
