"""Computes the seconds of each region in recorded runs, and the seconds that the region saves.

Two programs are compared, one with and one without regions. To match their rOperators, the model's
operations temporarily get unique numbered names as locations, which the passes preserve.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.ir_walk import walk
from rammer_mlir.passes.ir.entry import entry_block, functions, symbol_name
from rammer_mlir.passes.program.task_graph import location_name
from rammer_mlir.timeline.spans import Span, Timeline

_UNIT = "rtask.unit "

_REGION = re.compile(r"(?P<region>.+)_x\d+(_\w+)?")
"""Names of external rKernels: the region's name, a number, and suffixes of later passes."""


def number_operations(module: ir.Module) -> list[ir.Location]:
    """Replace the location of each operation in the entry function by a name with a unique number.

    Return the replaced locations, in the order of the operations.
    """
    before: list[ir.Location] = []
    with module.context:
        for number, op in enumerate(entry_block(module).operations):
            before.append(op.operation.location)
            # The original name makes errors of programs that are timed readable.
            own = location_name(op.operation.location)
            op.operation.location = ir.Location.name(f"{_UNIT}{number} {own}".rstrip())
    return before


def restore_locations(module: ir.Module, before: Sequence[ir.Location]) -> None:
    """Replace the names of numbered operations by ``before``, the list of their original locations.

    Operations that passes derived from numbered operations get the original locations too.
    """
    for op in walk(module.operation):
        name = location_name(op.location)
        if name.startswith(_UNIT):
            op.location = before[int(name.removeprefix(_UNIT).partition(" ")[0])]


def seconds_of_runs(lines: Iterable[Timeline]) -> dict[str, float]:
    """Return the run time of each region, and of each operation that the host computes, in seconds.

    The keys are the names of regions, and the names that ``number_operations`` gave operations. A
    run time is the sum over all rTasks on all vEUs, and the minimum over the recorded runs.

    Args:
        lines: recorded runs of a single program.
    """
    least: dict[str, float] = {}
    for line in lines:
        found: defaultdict[str, float] = defaultdict(float)
        for span in line.spans:
            if span.kind == "rtask":
                found[_origin(span)] += span.seconds
        for name, seconds in found.items():
            least[name] = min(seconds, least.get(name, seconds))
    return least


def _origin(span: Span) -> str:
    region = _REGION.fullmatch(span.kernel) if span.module else None
    return region["region"] if region else span.name


def gains(
    module: ir.Module, host: Mapping[str, float], offloaded: Mapping[str, float]
) -> dict[str, float]:
    """Return the measured seconds that each region saves in a run, summed over the region's calls.

    The result is negative for a region that is slower than the host's code.

    Args:
        module: the module with all regions.
        host: seconds of the program without regions, by the name of a numbered operation.
        offloaded: seconds of the program with all regions, by the name of a region. If the host
            computes a region because an operand is strided, the key is the name of the operation
            that calls the region.
    """
    bodies = {symbol_name(function): function.operation for function in functions(module)}
    found: defaultdict[str, float] = defaultdict(float)
    for call in entry_block(module).operations:
        name = _callee(call.operation)
        if name in bodies:
            # Equal regions share a function, whose body has the numbered names of only one call.
            own = sum(host.get(unit, 0.0) for unit in _names(bodies[name], bodies))
            found[name] += own - offloaded.get(location_name(call.operation.location), 0.0)
    return {name: gain - offloaded.get(name, 0.0) for name, gain in found.items()}


def _callee(op: ir.Operation) -> str:
    return ir.FlatSymbolRefAttr(op.attributes["callee"]).value if op.name == "func.call" else ""


def _names(function: ir.Operation, bodies: Mapping[str, ir.Operation]) -> set[str]:
    """Return the location names of the operations in a function and its callees.

    ``bodies`` has the functions by symbol.
    """
    found: set[str] = set()
    for op in walk(function):
        found.add(location_name(op.location))
        if callee := _callee(op):
            found |= _names(bodies[callee], bodies)
    return found
