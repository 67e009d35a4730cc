"""Measure this machine's GPU: ``python -m rammer_mlir.benchmarks.this_gpu -o this_gpu.toml``.

The file is a device description of the GPU, for ``--costs this_gpu.toml``. Its numbers are computed
from the results of a kit, a folder of compiled benchmark cases (``gpu.kit``). With ``--results``,
the results of an earlier run of a kit, on any machine, are used. Otherwise, the cases in ``CASES``
are compiled into a kit, and the kit runs on this machine. The rates of arithmetic are measured with
rKernels of this compiler.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from rammer_mlir.benchmarks.command import one_line_errors
from rammer_mlir.benchmarks.gpu.kit.cases import STEPS
from rammer_mlir.benchmarks.gpu.kit.probe import THREADS
from rammer_mlir.benchmarks.gpu.kit.report import device_median
from rammer_mlir.benchmarks.gpu.kit.results import Result, Status, read_results
from rammer_mlir.benchmarks.gpu.kit.run import Request, run_kit
from rammer_mlir.errors import OptionError
from rammer_mlir.lowering.gpu.contractions.plan import WIDEST
from rammer_mlir.scheduling.devices.catalog import device_for
from rammer_mlir.scheduling.devices.description import DeviceDescription, read_description
from rammer_mlir.support.atomic_file import open_atomically

_EMPTY, _ALONE, _TOGETHER = (f"{name}.wavefront" for name in ("empty", "relay-1", "relay-2"))
_SIZE = 4096
_PRODUCTS = {
    precision: f"product-{_SIZE}x{_SIZE}x{_SIZE}-{precision}.wavefront"
    for precision in ("f32", "tf32", "f16")
}
"""Cases of a kit that give the rates of matrix products, by element type."""

_LOADS = 4
_IN_FLIGHT = _LOADS * THREADS * WIDEST
"""Bytes that a block has in flight, with four of the widest loads of each thread."""

CASES = ("machine", _EMPTY, _ALONE, _TOGETHER, "probe", *_PRODUCTS.values())


def description(results: Mapping[str, Result]) -> DeviceDescription:
    """Return a description of the GPU on which the results of a kit were measured.

    ``results`` has the result of each case by the case's name. Fields that no case measures are
    taken from the built-in description of the most common board with this chip.

    Raises:
        OptionError: if a case in ``CASES`` has no result, or did not succeed.
    """
    for case in CASES:
        status = results.get(case, {}).get("status", "none")
        if status != Status.OK:
            raise OptionError(
                f"results of a kit: expected the case '{case}' to be ok, found {status}; run it "
                "again"
            )
    machine, probe = results["machine"], results["probe"]
    base = device_for(f"nvvm:{machine['chip']}")
    has: Mapping[str, int] = probe["attributes"]
    measured = _measured(results, probe)
    told: dict[str, Any] = {
        "units": has["MULTIPROCESSOR_COUNT"],
        "clock_hertz": has["CLOCK_RATE"] * 1e3,
        "cache_bytes": has["L2_CACHE_SIZE"],
        "threads_per_unit": has["MAX_THREADS_PER_MULTIPROCESSOR"],
        "veus_per_unit": has["MAX_THREADS_PER_MULTIPROCESSOR"] // THREADS,
        "registers_per_unit": has["MAX_REGISTERS_PER_MULTIPROCESSOR"],
        "shared_bytes_per_unit": has["MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"],
        "shared_bytes_per_veu": has["MAX_SHARED_MEMORY_PER_BLOCK"],
    }
    usual = f"of the usual board, '{base.name}': "
    sources = {name: usual + source for name, source in base.sources.items()}
    sources |= dict.fromkeys(told, f"CUDA {machine['driver']}'s attributes of the device")
    sources |= dict.fromkeys(measured, "measured by a GPU kit")
    sources["flops_per_second"] = (
        f"f32, tf32, f16: measured by a GPU kit, products of {_SIZE} cubed; others {usual}"
        + base.sources["flops_per_second"]
    )
    return replace(
        base, title=machine["device"], targets=(), sources=sources,
        flops_per_second={**base.flops_per_second, **_rates(results)}, **told, **measured,
    )  # fmt: skip


def _measured(results: Mapping[str, Result], probe: Mapping[str, Any]) -> dict[str, float]:
    reads = [read for read in probe["reads"] if not read["in_cache"]]
    launch, alone, together = (_seconds(results, case) for case in (_EMPTY, _ALONE, _TOGETHER))
    rtask = max((alone - launch) / STEPS, 0.0)
    return {
        "bytes_per_second": max(read["bytes"] / read["seconds"] for read in reads),
        "unit_bytes_per_second": max(
            read["bytes"] / read["seconds"] for read in reads if read["blocks"] == 1
        ),
        "launch_seconds": launch,
        "rtask_seconds": rtask,
        "barrier_seconds": max((together - alone) / STEPS, 0.0),
        "memory_latency_seconds": _latency(reads, probe["attributes"]["MULTIPROCESSOR_COUNT"]),
        "bytes_in_flight_per_veu": _IN_FLIGHT,
    }


def _latency(reads: Sequence[Mapping[str, Any]], units: int) -> float:
    """Return the latency in seconds of a load from device memory, by Little's law.

    The latency is the number of bytes in flight divided by the bandwidth. Both are those of a
    launch with a block on each of the ``units`` multiprocessors and ``_LOADS`` loads in flight per
    thread. ``reads`` has the measured launches that read device memory, each a mapping with the
    keys ``blocks``, ``loads`` (in flight per thread), ``seconds`` and ``bytes``.
    """
    read = next(one for one in reads if (one["blocks"], one["loads"]) == (units, _LOADS))
    return units * _IN_FLIGHT * read["seconds"] / read["bytes"]


def _rates(results: Mapping[str, Result]) -> dict[str, float]:
    """Return floating-point operations per second of matrix products, by element type."""
    return {kind: 2 * _SIZE**3 / _seconds(results, case) for kind, case in _PRODUCTS.items()}


def _seconds(results: Mapping[str, Result], case: str) -> float:
    seconds = device_median(results[case])
    assert seconds is not None, "the case is ok and timed"
    return seconds


def text_of(device: DeviceDescription) -> str:
    """Return the text of a TOML file that holds a device description."""
    names = [f.name for f in fields(device) if f.type in ("int", "float", "bool")]
    known = [name for name in names if name in device.sources]
    lines = [f'title = "{device.title}"', "targets = []"]
    lines += [f"{name} = {_value(getattr(device, name))}" for name in known]
    lines += ["", "[flops_per_second]"]
    lines += [f"{kind} = {rate:.4e}" for kind, rate in device.flops_per_second.items()]
    lines += ["", "[sources]"]
    lines += [f'{name} = "{device.sources[name]}"' for name in (*known, "flops_per_second")]
    return "\n".join(lines) + "\n"


def _value(value: float) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else f"{value:.4e}"


def measure(output: Path) -> dict[str, Result]:
    """Compile ``CASES`` into a kit, run them on this machine's GPU, and return results by case.

    The kit and its results are written to the folder ``output``.

    Raises:
        RammerError: if there is no GPU, or the packages of the compiler are missing.
    """
    from rammer_mlir.benchmarks.gpu.kit.cases import SUBJECTS
    from rammer_mlir.benchmarks.gpu.kit.pack import pack
    from rammer_mlir.runtime.gpu.cuda import CudaDriver

    target = f"nvvm:{CudaDriver(0).chip}"
    names = {case.rpartition(".")[0] for case in CASES}
    subjects = [replace(s, baselines=()) for s in SUBJECTS if s.name in names]
    pack(output / "kit", target, subjects, megabytes=60, jobs=1)
    request = Request(output / "kit", output / "results.jsonl", 600.0, cases=CASES)
    return run_kit(request, lambda line: print(line, file=sys.stderr, flush=True)).results


@one_line_errors
def main(arguments: Sequence[str] | None = None) -> int:
    """Write the device description of a GPU to a file, and print it; return 0.

    The GPU is measured, unless the option ``--results`` names the results of an earlier kit.
    """
    parser = argparse.ArgumentParser(prog="python -m rammer_mlir.benchmarks.this_gpu")
    parser.add_argument("-o", "--output", type=Path, default=Path("this_gpu.toml"))
    parser.add_argument("--results", type=Path, help="of a kit; default: measured here")
    options = parser.parse_args(arguments)
    if options.results is None:
        with tempfile.TemporaryDirectory(prefix="rammer-gpu-") as folder:
            results = measure(Path(folder))
    else:
        results = read_results(options.results)
    text = text_of(description(results))
    with open_atomically(options.output) as file:
        file.write(text.encode())
    read_description(options.output)
    print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
