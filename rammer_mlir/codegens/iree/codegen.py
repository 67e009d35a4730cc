"""Defines the code generator ``iree``: its supported operations, and the objects of its regions."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

from rammer_mlir.codegens.iree.compiler import NEEDS, VERSION, flags_of
from rammer_mlir.codegens.iree.object_code import ObjectCode, machine_of, make_object
from rammer_mlir.codegens.iree.operations import (
    PATTERNS,
    efficiency,
    has_main_operation,
    is_supported,
)
from rammer_mlir.codegens.iree.program import SECONDS, Program, program_of
from rammer_mlir.engines import requirements
from rammer_mlir.passes.regions.codegen import RegionFacts
from rammer_mlir.passes.regions.interval_partition import Limits
from rammer_mlir.passes.regions.patterns import CompositePattern
from rammer_mlir.passes.regions.reading import Reading
from rammer_mlir.passes.regions.region import Region, RegionCode
from rammer_mlir.programs.module_options import ModuleOption
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.support.log import LOGGER
from rammer_mlir.support.usable_cores import usable_cores

ALIGNMENT = 64
"""Alignment of operands in bytes that IREE's code assumes."""


_NO_TENSORS = "an input or output is empty, or of a type in which IREE does not compute"


class Iree:
    """Compiles single operations, with their element-wise neighbors, by IREE's compiler.

    Each region becomes a dispatch function, whose workgroups are grouped into rTasks; IREE's
    runtime is not needed. The host computes regions that IREE would compile to several dispatches
    or with transient buffers. A process compiles equal regions only once.
    """

    name: ClassVar[str] = "iree"
    options: ClassVar[tuple[ModuleOption, ...]] = (
        ModuleOption("seconds", SECONDS, "time limit in seconds to compile a region", least=1),
        ModuleOption("flags", "", "additional flags of iree-compile, separated by spaces"),
    )

    min_macs: ClassVar[int] = 0
    """Least multiply-accumulates of a region; zero, because poolings and softmax have none."""

    pads_apart: ClassVar[bool] = True
    """Whether the padding of a convolution's input stays outside of regions.

    IREE compiles a padding to a separate dispatch, and fails for depthwise convolutions.
    """

    def __init__(self) -> None:
        """Begin with an empty memo of compiled regions."""
        self._known: dict[str, ObjectCode | str] = {}

    def missing(self) -> str | None:
        """Return a message about missing packages; None if all are installed."""
        return requirements.missing(NEEDS)

    def version(self) -> str:
        """Return the required version of IREE's compiler."""
        return VERSION

    def patterns(self) -> Sequence[CompositePattern]:
        """Return patterns of an operation and element-wise neighbors that IREE fuses."""
        return PATTERNS

    def supports(self, reading: Reading) -> bool:
        """Whether IREE compiles an operation alone to a single, efficient dispatch."""
        return is_supported(reading)

    def limits(self) -> Limits:
        """Return the limit of a region: one operation or composite.

        A larger region would be several dispatches.
        """
        return Limits(operations=1)

    def worth(self, facts: RegionFacts, device: Device) -> bool:
        """Return False for a region of element-wise functions only, which the host fuses."""
        return has_main_operation(facts.readings)

    def prepare(self, regions: Sequence[Region]) -> None:
        """Compile regions in parallel, and keep the results for ``generate``.

        Each compilation is a separate process.
        """
        programs = [program for program in map(program_of, regions) if program is not None]
        wanted = {_key(program): program for program in programs}
        missing = [program for key, program in wanted.items() if key not in self._known]
        if missing:
            with ThreadPoolExecutor(usable_cores()) as pool:
                list(pool.map(self._compiled, missing))

    def generate(self, region: Region) -> RegionCode | None:
        """Return a region's object files; None if IREE cannot compile it to a single dispatch."""
        program = program_of(region)
        made = _NO_TENSORS if program is None else self._compiled(program)
        if isinstance(made, str):
            LOGGER.info("iree: region '%s' stays on the host: %s", region.name, made)
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

    def _compiled(self, program: Program) -> ObjectCode | str:
        key = _key(program)
        if key not in self._known:
            self._known[key] = make_object(program, f"iree_{key}")
        return self._known[key]


def _key(program: Program) -> str:
    """Return a hash of a program (text, target, flags, time limit) and the compiler's version."""
    flags = " ".join((*flags_of(machine_of(program.target)), *program.flags, str(program.seconds)))
    text = f"{VERSION} {program.target} {flags}\n{program.lines}"
    return hashlib.sha256(text.encode()).hexdigest()[:24]
