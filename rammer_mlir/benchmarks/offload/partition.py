"""Count the operations and regions of a model that a code generator compiles.

The counts are taken from the IR after each of the passes that form regions.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rammer_mlir import dialects
from rammer_mlir.benchmarks.offload.integration import integration_lines
from rammer_mlir.bindings import ir
from rammer_mlir.compiler.options import check_options
from rammer_mlir.compiler.stage_names import REGIONS
from rammer_mlir.frontends.onnx import ImportedModel, import_prepared, prepare_any
from rammer_mlir.frontends.onnx.hosting.partition import HostedGraph
from rammer_mlir.frontends.onnx.load import load
from rammer_mlir.frontends.onnx.model import Model
from rammer_mlir.frontends.onnx.open_inputs import open_signature
from rammer_mlir.passes.ir.entry import CODEGEN, entry_block, functions, symbol_name
from rammer_mlir.passes.manager import run_pipeline
from rammer_mlir.passes.regions.codegen import CODEGENS
from rammer_mlir.passes.regions.region import Region, region_of
from rammer_mlir.passes.regions.region_graph import RegionGraph
from rammer_mlir.passes.tiling.generated import GENERATED
from rammer_mlir.programs.host_program import Evaluate
from rammer_mlir.support.plugins import load_plugins

_STEPS = ("rtask-merge-regions", "rtask-split-regions", "rtask-generate-regions")
"""Passes after which the IR is counted."""

_COPIED = "fill"
"""Kind of operation that is copied for every user, and therefore is not counted."""


@dataclass(frozen=True)
class Job:
    """The arguments of ``partition``: a model, and a code generator that compiles regions of it.

    Attributes:
        model: ONNX file.
        codegen: name of the code generator.
        plugins: modules or files that may define the code generator.
        num_veus: number of vEUs of the program.
        module_options: values of the code generator's own options, keyed by ``NAME.OPTION``.
    """

    model: Path
    codegen: str
    plugins: tuple[str, ...] = ()
    num_veus: int = 1
    module_options: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Partition:
    """A code generator's share of a model.

    A reading is a group of operations that is recognized as a single tensor operation, such as a
    convolution together with the padding of its image.

    Attributes:
        operations: number of the model's operations. All operations of a reading together count
            as one. An operation that the host evaluates between programs counts as one.
        readings: number of readings.
        macs: number of multiply-accumulate operations.
        taken: number of readings in regions that the code generator compiled.
        taken_macs: number of multiply-accumulate operations in these regions.
        merged: number of regions before cost-based partitioning.
        split: number of regions after cost-based partitioning.
        generated: number of regions that the code generator compiled.
        converted: bytes per run that these regions convert between their internal layouts and the
            layouts of their operands and results; 0 if the code generator does not report this.
        seconds: seconds in which the code of the regions was generated.
        lines: lines of code that integrate the code generator, as ``integration_lines`` counts.
    """

    operations: int = 0
    readings: int = 0
    macs: int = 0
    taken: int = 0
    taken_macs: int = 0
    merged: int = 0
    split: int = 0
    generated: int = 0
    converted: int = 0
    seconds: float = 0.0
    lines: int = 0


def partition(job: Job) -> Partition:
    """Count the operations and regions of a model that a code generator compiles.

    Raises:
        RammerError: if the model cannot be imported, or the code generator fails.
    """
    load_plugins(job.plugins)
    lines = integration_lines(CODEGENS.get(job.codegen))
    passes = _passes(job)
    total: Counter[str] = Counter()
    seconds = 0.0
    for program in _programs(load(job.model)):
        if isinstance(program, int):
            total["operations"] += program
        else:
            counted, took = _count(program, passes)
            total += counted
            seconds += took
    return Partition(**total, seconds=seconds, lines=lines)


def _programs(model: Model) -> Iterator[ImportedModel | int]:
    """Yield each static program of a model, and counts of operations outside of static programs.

    A count is an integer. Operations outside of static programs are evaluated by the host, or are
    nodes of parts with open dimensions.
    """
    found = prepare_any(model, {}, {})
    if not isinstance(found, HostedGraph):
        yield import_prepared(found)
        return
    yield sum(isinstance(step, Evaluate) for step in found.program.steps)
    for part in found.parts:
        if open_signature(part.model).is_open:
            # An open part has no static program, so that its nodes count as the host's.
            yield len(part.model.graph.node)
        else:
            yield from _programs(part.model)


def _passes(job: Job) -> list[str]:
    """Return three pass pipelines, as text, that together run the passes on regions.

    Pipeline i ends with pass i of ``_STEPS``, so that the IR can be inspected after this pass. It
    begins where the previous pipeline ends.
    """
    options = check_options(
        "cpu", offload=job.codegen, offload_choice="always", num_veus=job.num_veus,
        module_options=dict(job.module_options),
    )  # fmt: skip
    (regions,) = (stage for stage in options.portable_stages() if stage.name == REGIONS)
    found: list[str] = []
    begin = 0
    for step in _STEPS:
        end = 1 + next(n for n, text in enumerate(regions.passes) if text.startswith(step))
        found.append(f"builtin.module({','.join(regions.passes[begin:end])})")
        begin = end
    return found


def _count(program: ImportedModel, passes: Sequence[str]) -> tuple[Counter[str], float]:
    """Merge, split and generate a program's regions; count operations and regions after each step.

    ``passes`` are the pipelines of these three steps, which ``_passes`` returns.

    Returns:
        The counts, keyed by the names of fields of ``Partition``, and the duration in seconds of
        the third step, code generation.
    """
    context = ir.Context()
    dialects.register(context)
    merge, split, generate = passes
    with context, ir.Location.unknown():
        module = ir.Module.parse(program.bytecode)
        run_pipeline(module, merge)
        graph = RegionGraph.of(module)
        total = Counter(
            operations=sum(max(1, len(unit.readings)) for unit in graph.units),
            readings=sum(len(unit.readings) for unit in graph.units),
            macs=sum(unit.macs for unit in graph.units),
            merged=len(graph.regions()),
        )
        run_pipeline(module, split)
        graph = RegionGraph.of(module)
        units = [unit for unit in graph.units if unit.region is not None]
        total["split"] = total["generated"] = len(graph.regions())
        total["taken"] = sum(len(unit.readings) for unit in units)
        total["taken_macs"] = sum(unit.macs for unit in units)
        begin = time.perf_counter()
        run_pipeline(module, generate)
        seconds = time.perf_counter() - begin
        for codegen, region, is_generated in _called(module):
            if is_generated:
                total["converted"] += _converted_bytes(codegen, region)
                continue
            # A region without code returns to the host.
            total["taken"] -= sum(
                reading.kind != _COPIED for each in region.operations for reading in each.readings
            )
            total["taken_macs"] -= region.macs
            total["generated"] -= 1
    return total, seconds


def _called(module: ir.Module) -> Iterator[tuple[str, Region, bool]]:
    """Yield each call of a region in the entry function, as three values.

    They are the name of the region's code generator, the region, and whether the code generator
    returned code for it.
    """
    own = [f for f in functions(module) if CODEGEN in f.operation.attributes]
    known = {
        symbol_name(f): (
            ir.StringAttr(f.operation.attributes[CODEGEN]).value,
            region_of(module, f),
            GENERATED in f.operation.attributes,
        )
        for f in own
    }
    for op in entry_block(module).operations:
        if op.operation.name == "func.call":
            callee = ir.FlatSymbolRefAttr(op.operation.attributes["callee"]).value
            if callee in known:
                yield known[callee]


def _converted_bytes(codegen: str, region: Region) -> int:
    """Return the number of bytes of a region's operands and results whose layout is converted.

    ``codegen`` names the code generator that converts layouts. The result is 0 if the code
    generator does not report this count.
    """
    count: Callable[[Region], int] | None
    count = getattr(CODEGENS.get(codegen), "converted_bytes", None)
    return 0 if count is None else count(region)
