"""Measure coalescing of rKernels: ``python -m rammer_mlir.benchmarks.gpu.accesses MODEL``.

No GPU is needed: the emulator records the accesses of every lane. A row of the table has the number
of 32-byte sectors that warps access, and the share that would suffice for the accessed bytes. A low
share means uncoalesced accesses. If an access has few lanes, the other lanes of the warp are idle.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import get_args

from rammer_mlir.benchmarks.command import one_line_errors
from rammer_mlir.benchmarks.machine import table
from rammer_mlir.benchmarks.models import Scale, build, random_feeds
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options
from rammer_mlir.emulation.device.executable import EmulatedExecutable
from rammer_mlir.emulation.device.traces import WarpAccesses, warp_accesses


def measure(
    model: str, target: str, num_veus: int | None = None, scale: Scale = "small"
) -> list[WarpAccesses]:
    """Emulate a run of ``model`` compiled for ``target``; return its kernel's memory accesses.

    An element of the result has the accesses by all executions of one load, store or copy in the
    code. If the emulator's trace is too small for all accesses, the latest accesses are left out,
    and a message is printed. ``num_veus`` is the number of vEUs; None for the target's default.
    """
    built = build(model, scale=scale)
    options = check_options(target, policy="wavefront", num_veus=num_veus).emulated(traced=True)
    executable = Compilation.of_model(built, options).executable()
    assert isinstance(executable, EmulatedExecutable)
    executable.run(random_feeds(built, seed=1))
    (trace,) = executable.traces
    if trace.full:
        print(f"{model}: the trace is full, the rest is left out", file=sys.stderr)
    return warp_accesses(trace, 32)


def by_function(found: Sequence[WarpAccesses]) -> list[list[str]]:
    """Return a table row for each function of the kernel.

    The function whose accesses read or write the most sectors of 32 bytes comes first.
    """
    groups: dict[str, list[WarpAccesses]] = {}
    for one in found:
        groups.setdefault(one.access.function, []).append(one)
    ordered = sorted(groups.items(), key=lambda item: -sum(one.sectors for one in item[1]))
    return [_row(name, "", some) for name, some in ordered]


def by_access(found: Sequence[WarpAccesses]) -> list[list[str]]:
    """Return a table row for each load or store in the code.

    The access that reads or writes the most sectors of 32 bytes comes first.
    """
    ordered = sorted(found, key=lambda one: -one.sectors)
    return [
        _row(one.access.function, f"{one.access.operation} of {one.access.num_bytes}", [one])
        for one in ordered
    ]


def _row(function: str, access: str, found: Sequence[WarpAccesses]) -> list[str]:
    executions = sum(one.executions for one in found)
    lanes = sum(one.lanes for one in found) / executions
    sectors, needed = sum(one.sectors for one in found), sum(one.needed for one in found)
    return [
        function, access, str(executions), f"{lanes:.1f}", str(sectors), f"{needed / sectors:.0%}",
    ]  # fmt: skip


@one_line_errors
def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table of memory accesses for each model; return 0."""
    parser = argparse.ArgumentParser(
        prog="python -m rammer_mlir.benchmarks.gpu.accesses", description=__doc__
    )
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--target", default="nvvm:sm_90")
    parser.add_argument("--veus", type=int, default=None)
    parser.add_argument("--scale", choices=get_args(Scale), default="small")
    parser.add_argument("--each", action="store_true", help="a row for each access")
    options = parser.parse_args(arguments)
    heads = ["rKernel", "access", "executions", "lanes of 32", "sectors", "needed"]
    for model in options.models:
        found = measure(model, options.target, options.veus, options.scale)
        rows = by_access(found) if options.each else by_function(found)
        print(f"{model}\n\n{table([heads, *rows])}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
