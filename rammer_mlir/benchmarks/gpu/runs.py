"""Run programs on arrays in GPU memory; time launches and one vEU's wait for another."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from rammer_mlir.benchmarks.comparison import Array
from rammer_mlir.benchmarks.timing import interleave
from rammer_mlir.errors import RammerError
from rammer_mlir.runtime.gpu.executable import GpuExecutable

RELAYS = {"empty": (2, 0), "relay": (2, 256), "alone": (1, 256)}
"""Programs that time launches and barriers: number of vEUs and of dependent rTasks, by name."""


def ways_to_run(
    label: str, executable: GpuExecutable, feeds: Mapping[str, Array]
) -> dict[str, Callable[[], object]]:
    """Return functions that run a program once on device memory, and wait until it has ended.

    The result has two functions. The function with the key ``label`` launches the program. The
    function with the key ``label`` + ", graph" replays a captured graph of a launch. ``feeds`` are
    the inputs by name.
    """
    inputs = executable.to_device(feeds)
    captured = executable.capture(inputs)

    def launch() -> None:
        executable.run_on_device(inputs, captured.outputs)
        executable.synchronize()

    def replay() -> None:
        captured.replay()
        captured.synchronize()

    return {label: launch, f"{label}, graph": replay}


def time_relays(executables: Mapping[str, GpuExecutable], seconds: float) -> dict[str, float]:
    """Check and time the programs that ``RELAYS`` describes, for ``seconds`` seconds in total.

    ``executables`` has the compiled programs, by name: an empty program, and chains of dependent
    rTasks on one vEU and alternately on two vEUs. The time of a wait is the difference of the two
    chains' times, divided by the number of rTasks.

    Returns:
        Seconds by name: "launch" of an empty program, "launch of a graph" of an empty program, and
        "wait for another vEU".

    Raises:
        RammerError: if a chain computes a wrong result.
    """
    feeds = {"x": np.full(1, 0.5, np.float32)}
    contenders: dict[str, Callable[[], object]] = {}
    for name, (_, steps) in RELAYS.items():
        executable = executables[name]
        if steps and executable.run(feeds)["y"][0] != steps + 0.5:
            raise RammerError(f"a relay of {steps} steps computes a wrong number")
        contenders |= ways_to_run(name, executable, feeds)
    found = interleave(contenders, seconds)
    together, alone = found["relay, graph"].median, found["alone, graph"].median
    return {
        "launch": found["empty"].median,
        "launch of a graph": found["empty, graph"].median,
        "wait for another vEU": (together - alone) / RELAYS["relay"][1],
    }
