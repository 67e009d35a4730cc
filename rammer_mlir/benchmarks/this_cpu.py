"""Measure this machine: ``python -m rammer_mlir.benchmarks.this_cpu -o this_cpu.toml``.

The file is a device description of this CPU, for ``--costs this_cpu.toml``. The rates of arithmetic
and of memory are measured with rKernels of this compiler: a matrix product, and a ReLU of a long
vector.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray

import rammer_mlir
from rammer_mlir.benchmarks.cache_ends import cache_ends
from rammer_mlir.benchmarks.command import one_line_errors
from rammer_mlir.benchmarks.launch import measure_launch
from rammer_mlir.benchmarks.machine import machine
from rammer_mlir.benchmarks.relay import Relay
from rammer_mlir.scheduling.devices.description import read_description
from rammer_mlir.support.atomic_file import open_atomically

_SIZE = 256
"""Number of rows and of columns of the matrix product."""
_ELEMENTS = 1 << 24
"""Number of elements of the vector whose ReLU is computed: larger than the caches."""
_UNKNOWN_CACHE = 1 << 20
"""Assumed size in bytes of a core's own cache if the system does not report it."""
_STEPS = 512
"""Number of rTasks in the programs that time barriers and the start of rTasks."""


def measure(repeats: int = 15) -> dict[str, float]:
    """Measure this CPU; return the measured fields of a device description, by field name.

    Units are those of the description: seconds, bytes, or operations per second. ``repeats`` is the
    number of runs of each measurement.
    """
    cores = len(os.sched_getaffinity(0))
    relay = {veus: _relay_seconds(veus, repeats) for veus in (1, 2)}
    launches = {veus: measure_launch(veus).native * 1e-6 for veus in (1, 2)}
    alone = (relay[1] - launches[1]) / _STEPS
    together = (relay[2] - launches[2]) / _STEPS if cores > 1 else alone
    kept, lost = cache_ends(_cache_bytes(2, _UNKNOWN_CACHE), repeats)
    return {
        "units": cores,
        "flops_per_second": cores * _flops(repeats),
        "unit_bytes_per_second": _bandwidth(1, repeats),
        "bytes_per_second": _bandwidth(cores, repeats),
        "launch_seconds": launches[min(cores, 2)],
        "single_launch_seconds": launches[1],
        "rtask_seconds": max(alone, 0.0),
        "barrier_seconds": max(together - alone, 0.0),
        "unit_cache_kept_bytes": kept,
        "unit_cache_lost_bytes": lost,
    }


def _low(run: Callable[[], object], repeats: int, num_veus: int = 1) -> float:
    """Call ``run`` ``repeats`` times; return the median seconds of the faster half of the calls.

    Slow calls are ignored, because other work on the machine only slows calls down. With one vEU,
    the seconds are this thread's processor time, which excludes other threads on the core. With
    several vEUs, they are elapsed time.
    """
    clock = time.thread_time if num_veus == 1 else time.perf_counter
    run()
    seconds: list[float] = []
    for _ in range(repeats):
        begin = clock()
        run()
        seconds.append(clock() - begin)
    return statistics.median(sorted(seconds)[: (repeats + 1) // 2])


def _relay_seconds(num_veus: int, repeats: int) -> float:
    x = np.zeros(1, np.float32)
    with Relay(num_veus, _STEPS).for_cpu() as executable:
        assert executable.run({"x": x})["y"][0] == _STEPS
        return _low(lambda: executable.run({"x": x}), 10 * repeats, num_veus)


def _flops(repeats: int) -> float:
    """Return floating-point operations per second of one core in a matrix product."""
    generator = np.random.default_rng(1)
    a, b = (generator.standard_normal((_SIZE, _SIZE)).astype(np.float32) for _ in range(2))
    model = _model("MatMul", [_SIZE, _SIZE], {"b": b})
    with rammer_mlir.compile(model, num_veus=1) as executable:
        return 2 * _SIZE**3 / _low(lambda: executable.run({"a": a}), repeats)


def _bandwidth(num_veus: int, repeats: int) -> float:
    """Return the memory bandwidth of ``num_veus`` cores together, in bytes per second.

    The bandwidth is measured in ``repeats`` runs of a ReLU, which reads and writes long vectors.
    """
    a = np.random.default_rng(2).standard_normal(_ELEMENTS).astype(np.float32)
    model = _model("Relu", [_ELEMENTS], {})
    with rammer_mlir.compile(model, num_veus=num_veus) as executable:
        out = {"y": np.zeros(_ELEMENTS, np.float32)}
        return 2 * a.nbytes / _low(lambda: executable.run({"a": a}, out), repeats, num_veus)


def _model(
    operator: str, shape: list[int], weights: dict[str, NDArray[np.float32]]
) -> onnx.ModelProto:
    info, kind = onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    node = onnx.helper.make_node(operator, ["a", *weights], ["y"])
    constants = [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = onnx.helper.make_graph(
        [node], operator, [info("a", kind, shape)], [info("y", kind, shape)], constants
    )
    return onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9
    )


def _cache_bytes(level: int, otherwise: int) -> int:
    """Return the size in bytes of a core's cache of level ``level``, as Linux reports it.

    The result is ``otherwise`` if the size is unknown, as on some virtual machines.
    """
    for entry in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        try:
            if (entry / "level").read_text().strip() == str(level):
                return int((entry / "size").read_text().strip().removesuffix("K")) << 10
        except (OSError, ValueError):
            continue
    return otherwise


def description(found: dict[str, float]) -> str:
    """Return a device description of this CPU as the text of a TOML file.

    ``found`` has the measured fields as ``measure`` returns them. A field that is not measured has
    the value that the operating system reports, or a guess.
    """
    place = machine()
    source = f"measured by rammer_mlir.benchmarks.this_cpu on {place['date']}"
    guess = "as in the description of a round CPU"
    figures: dict[str, tuple[object, str]] = {
        "units": (int(found["units"]), "cores that this process may use"),
        "veus_per_unit": (64, "threads that take turns on a core"),
        "threads_per_unit": (64, "threads that take turns on a core"),
        "threads_per_veu": (1, "a vEU is a thread"),
        "registers_per_unit": (0, "they limit nothing"),
        "shared_bytes_per_unit": (16 << 20, guess),
        "shared_bytes_per_veu": (1 << 20, guess),
        "clock_hertz": (3e9, guess),
        "cache_bytes": (_cache_bytes(3, 32 << 20), "what the system says, or else a guess"),
        "unit_cache_bytes": (_cache_bytes(2, _UNKNOWN_CACHE), "what the system says, or a guess"),
        **{
            name: (int(found[name]), source)
            for name in ("unit_cache_kept_bytes", "unit_cache_lost_bytes")
        },
        **{
            name: (float(f"{found[name]:.4g}"), source)
            for name in ("bytes_per_second", "unit_bytes_per_second", "launch_seconds",
                         "single_launch_seconds", "barrier_seconds", "rtask_seconds")
        },
    }  # fmt: skip
    figures["is_bulk_synchronous"] = (False, "a thread may wait for another one")
    lines = [f'title = "{place["processor"]}"', "targets = []"]
    lines += [f"{name} = {str(value).lower()}" for name, (value, _) in figures.items()]
    lines += ["", "[flops_per_second]", f"f32 = {found['flops_per_second']:.4e}", "", "[sources]"]
    lines += [f'{name} = "{text}"' for name, (_, text) in figures.items()]
    lines.append(f'flops_per_second = "{source}: a matrix product of {_SIZE} cubed, times cores"')
    return "\n".join(lines) + "\n"


@one_line_errors
def main(arguments: Sequence[str] | None = None) -> int:
    """Measure this CPU, write its device description to a file, and print it; return 0."""
    parser = argparse.ArgumentParser(prog="python -m rammer_mlir.benchmarks.this_cpu")
    parser.add_argument("-o", "--output", type=Path, default=Path("this_cpu.toml"))
    path = parser.parse_args(arguments).output
    text = description(measure())
    with open_atomically(path) as file:
        file.write(text.encode())
    read_description(path)
    print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
