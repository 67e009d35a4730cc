"""Measure latency on a GPU: ``python -m rammer_mlir.benchmarks.gpu [MODEL ...]``.

Each model is compiled to one persistent kernel (`wavefront`), and to one kernel launch for each
operator (`sequential`). Each of the two programs runs in two ways: by launches, and by replaying a
captured GPU graph. Runs alternate with runs of other installed runtimes. Inputs and outputs stay
in device memory. Without a GPU the command prints a line and stops.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import onnx

import rammer_mlir
from rammer_mlir.benchmarks.command import one_line_errors
from rammer_mlir.benchmarks.comparison import compare
from rammer_mlir.benchmarks.contenders.onnx_runtime import OnnxRuntime
from rammer_mlir.benchmarks.gpu.contenders import missing, rivals
from rammer_mlir.benchmarks.gpu.runs import RELAYS, time_relays, ways_to_run
from rammer_mlir.benchmarks.machine import machine, table
from rammer_mlir.benchmarks.models import TABLE_1, build, random_feeds
from rammer_mlir.benchmarks.relay import Relay
from rammer_mlir.benchmarks.timing import Latency, interleave
from rammer_mlir.errors import RammerError, TargetError
from rammer_mlir.lowering.targets import GPU_FAMILIES
from rammer_mlir.runtime.gpu.driver import Driver, Peaks
from rammer_mlir.runtime.gpu.driver_loading import open_driver
from rammer_mlir.runtime.gpu.executable import GpuExecutable


@dataclass(frozen=True)
class Result:
    """A model's latencies on a GPU, by the name of the contender.

    A contender is one of our two programs, run in one of two ways, or another runtime. ``floor`` is
    a lower bound of the seconds of a run, 0 if unknown; ``error`` is the message of an error, or
    empty.
    """

    model: str
    batch: int
    latencies: dict[str, Latency]
    floor: float = 0.0
    error: str = ""


def open_gpu(kinds: Sequence[str] = tuple(GPU_FAMILIES)) -> tuple[str, Driver]:
    """Return the first kind of target that has a GPU on this machine, and the GPU's driver.

    ``kinds`` are names such as ``nvvm``, which are tried in order.

    Raises:
        TargetError: if there is no GPU; the message says which driver or device is missing.
    """
    reasons: list[str] = []
    for kind in kinds:
        try:
            return kind, open_driver(f"{kind}:")
        except TargetError as error:
            reasons.append(str(error))
    raise TargetError(f"no GPU to measure on: {'; '.join(reasons)}")


def measure_model(
    name: str, batch: int, target: str, peaks: Peaks | None, seconds: float
) -> Result:
    """Check model ``name`` against ONNX Runtime, time it on ``target``, and return the latencies.

    Each of our two programs (`wavefront` and `sequential`) runs by launches and by replaying a
    captured GPU graph; these runs alternate with runs of other installed runtimes. An error of our
    compiler is stored in the result.

    Args:
        name: name of a benchmark model.
        batch: batch size.
        target: the GPU target.
        peaks: the GPU's peak rates for the lower bound; None for no bound.
        seconds: duration of the timing of all contenders together.
    """
    model = build(name, batch=batch)
    feeds = random_feeds(model, 1)
    expected = OnnxRuntime(model).run(feeds)
    try:
        whole = _compiled(model, target, "wavefront", per_operator=False)
        split = _compiled(model, target, "sequential", per_operator=True)
        contenders: dict[str, Callable[[], object]] = {}
        for label, executable in (("wavefront", whole), ("sequential", split)):
            comparison = compare(expected, executable.run(feeds))
            if not comparison.ok:
                raise RammerError(f"{label} computes wrong numbers: {comparison}")
            contenders |= ways_to_run(label, executable, feeds)
    except RammerError as error:
        return Result(name, batch, {}, error=str(error))
    contenders |= dict(rivals(model, feeds))
    return Result(name, batch, interleave(contenders, seconds), _floor(whole, peaks))


def _compiled(
    model: onnx.ModelProto, target: str, policy: str, *, per_operator: bool
) -> GpuExecutable:
    compiled = rammer_mlir.compile(model, target=target, policy=policy, per_operator=per_operator)
    assert isinstance(compiled, GpuExecutable)
    return compiled


def _floor(executable: GpuExecutable, peaks: Peaks | None) -> float:
    """Return a lower bound of the seconds of a run; 0 if the peak rates are unknown.

    The bound is the larger of two times at peak rates: the time to read all weights and inputs and
    to write all outputs, and the time to execute all operations.
    """
    if peaks is None:
        return 0.0
    signature = executable.signature
    tensors = sum(spec.num_bytes for spec in (*signature.inputs, *signature.outputs))
    moved = (executable.stats["constant_bytes"] + tensors) / peaks.bandwidth
    return max(moved, executable.stats["operations"] / peaks.operations)


def measure_relays(target: str) -> dict[str, float]:
    """Time launches and waits between vEUs on ``target``; return the seconds by name.

    The timed programs, described by ``RELAYS``, are an empty program, and chains of rTasks that
    alternate between two vEUs or run on a single vEU. ``time_relays`` derives from their times the
    seconds of a launch, of a launch of a GPU graph, and of a wait for another vEU.
    """
    relays = {name: Relay(*shape).compile(target) for name, shape in RELAYS.items()}
    return time_relays(relays, seconds=3.0)


def report(found: Sequence[Result]) -> str:
    """Return a table with a row per model: a lower bound of its latency, then median latencies.

    Each median is followed by the quartiles. All times are in milliseconds.
    """
    names = list(dict.fromkeys(name for result in found for name in result.latencies))
    rows = [["model", "batch", "floor ms", *(f"{name} ms" for name in names)]]
    for result in found:
        cells = [str(result.latencies.get(name, result.error or "-")) for name in names]
        rows.append([result.model, str(result.batch), f"{result.floor * 1e3:.4f}", *cells])
    return table(rows)


@one_line_errors
def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the models, print the table, and write ``gpu.json`` and ``gpu.md``.

    Return 1 if a model failed, else 0.
    """
    parser = argparse.ArgumentParser(prog="python -m rammer_mlir.benchmarks.gpu")
    parser.add_argument("models", nargs="*", metavar="MODEL", default=list(TABLE_1))
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--seconds", type=float, default=3.0, help="timing for each model")
    parser.add_argument("--output", type=Path, default=Path("build/bench-gpu"))
    options = parser.parse_args(arguments)
    try:
        kind, driver = open_gpu()
    except TargetError as error:
        print(error)
        return 0
    target = f"{kind}:{driver.chip}"
    print(f"{driver.name}, {target}; not installed: {', '.join(missing()) or 'nothing'}")
    relays = measure_relays(target)
    for name, seconds in relays.items():
        print(f"{name}: {seconds * 1e6:.2f} us", flush=True)
    found: list[Result] = []
    for name in options.models:
        for batch in options.batch:
            print(f"{name}, batch {batch} ...", file=sys.stderr, flush=True)
            found.append(measure_model(name, batch, target, driver.peaks(), options.seconds))
    text = report(found)
    print(text)
    options.output.mkdir(parents=True, exist_ok=True)
    place = {"device": driver.name, "target": target, **machine()}
    results = {"machine": place, "relays": relays, "models": [asdict(r) for r in found]}
    (options.output / "gpu.json").write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    (options.output / "gpu.md").write_text(text + "\n", encoding="utf-8")
    return 1 if any(result.error for result in found) else 0


if __name__ == "__main__":
    sys.exit(main())
