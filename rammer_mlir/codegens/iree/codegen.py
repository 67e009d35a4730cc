"""The code generator ``iree``."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

from rammer_mlir.codegens.iree.compiler import NEEDS, VERSION, flags_of
from rammer_mlir.codegens.iree.object_code import ObjectCode, machine_of, make_object
from rammer_mlir.codegens.iree.operations import PATTERNS, efficiency, is_supported, is_worth
from rammer_mlir.codegens.iree.program import SECONDS, Program, program_of
from rammer_mlir.engines import requirements
from rammer_mlir.passes.regions.codegen import RegionFacts
from rammer_mlir.passes.regions.cuts import Limits
from rammer_mlir.passes.regions.patterns import CompositePattern
from rammer_mlir.passes.regions.reading import Reading
from rammer_mlir.passes.regions.region import Region, RegionCode
from rammer_mlir.programs.module_options import ModuleOption
from rammer_mlir.scheduling.device import Device
from rammer_mlir.support.log import LOGGER
from rammer_mlir.support.usable_cores import usable_cores

ALIGNMENT = 64
"""Bytes: IREE's code loads whole cache lines from where its operands begin."""


class Iree:
    """Compiles single operations, with element-wise ones around them, by IREE's compiler.

    Each becomes one dispatch function, whose workgroups are rTasks; no runtime of IREE is needed.
    What IREE makes several dispatches or transients of is the host's. Equal regions are compiled
    once in a process.
    """

    name: ClassVar[str] = "iree"
    options: ClassVar[tuple[ModuleOption, ...]] = (
        ModuleOption("seconds", SECONDS, "most seconds for compiling a region", least=0),
        ModuleOption("flags", "", "further flags of iree-compile, with spaces between them"),
    )

    min_macs: ClassVar[int] = 0
    """Poolings, reductions and softmax have no products."""

    pads_apart: ClassVar[bool] = True
    """IREE makes a dispatch of its own of a padding, and fails for depthwise convolutions."""

    def __init__(self) -> None:
        """Begin with nothing compiled."""
        self._known: dict[str, ObjectCode | None] = {}

    def missing(self) -> str | None:
        """Say what is expected and not installed."""
        return requirements.missing(NEEDS)

    def version(self) -> str:
        """Return the version of the compiler that it needs."""
        return VERSION

    def patterns(self) -> Sequence[CompositePattern]:
        """Return what becomes one dispatch."""
        return PATTERNS

    def supports(self, reading: Reading) -> bool:
        """Whether a single operation becomes one dispatch."""
        return is_supported(reading)

    def limits(self) -> Limits:
        """Take one operation, or composite, a region: others would be several dispatches."""
        return Limits(operations=1)

    def worth(self, facts: RegionFacts, device: Device) -> bool:
        """Take what is more than element-wise: that, the host fuses with other operations."""
        return is_worth(facts.readings)

    def prepare(self, regions: Sequence[Region]) -> None:
        """Compile regions side by side: IREE's compiler is a process of its own."""
        programs = [program for program in map(program_of, regions) if program is not None]
        wanted = {_key(program): program for program in programs}
        missing = [program for key, program in wanted.items() if key not in self._known]
        if missing:
            with ThreadPoolExecutor(usable_cores()) as pool:
                list(pool.map(self._compiled, missing))

    def generate(self, region: Region) -> RegionCode | None:
        """Return a region's objects; None if IREE does not make one dispatch of it."""
        program = program_of(region)
        made = None if program is None else self._compiled(program)
        if made is None:
            LOGGER.info("iree: region '%s' stays on the host: no single dispatch", region.name)
            return None
        box = made.tiles.box
        return RegionCode(
            made.adapter,
            made.symbol,
            form="object",
            num_rtasks=made.tiles.num_rtasks,
            writes={} if box is None else {0: box},
            objects=(made.library,),
            alignment=ALIGNMENT,
            efficiency=efficiency(r for each in region.operations for r in each.readings),
        )

    def _compiled(self, program: Program) -> ObjectCode | None:
        key = _key(program)
        if key not in self._known:
            self._known[key] = make_object(program, f"iree_{key}")
        return self._known[key]


def _key(program: Program) -> str:
    """Identify a region, whatever its name is, with all that its code depends on."""
    flags = " ".join((*flags_of(machine_of(program.target)), *program.flags))
    text = f"{VERSION} {program.target} {flags}\n{program.lines}"
    return hashlib.sha256(text.encode()).hexdigest()[:24]
