"""Programs for a machine with a GPU and without a compiler.

``python -m rammer_mlir.benchmarks.gpu.kit pack FOLDER`` compiles models here and writes, for each,
its artifacts and the numbers that are expected; ``... kit check FOLDER`` runs them there, compares,
and times them. Checking needs NumPy and the driver's bindings, no network and no compiler.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import rammer_mlir
from rammer_mlir.benchmarks.command import one_line_errors
from rammer_mlir.benchmarks.comparison import Array, compare
from rammer_mlir.benchmarks.machine import machine, table
from rammer_mlir.benchmarks.timing import Latency, interleave
from rammer_mlir.errors import OptionError, RammerError
from rammer_mlir.runtime.gpu.executable import GpuExecutable

FULL = (
    "squeezenet", "mobilenet_v2", "transformer_4_layers", "seq2seq", "lstm_tc", "nasnet_a_6_768",
)  # fmt: skip
"""Packed at full size, as far as there is room; all other models small."""

WAYS: Mapping[str, tuple[str, bool]] = {
    "wavefront": ("wavefront", False),
    "sequential": ("sequential", True),
}
"""Policy, and whether there is a launch for each operator."""

RELAYS = {"empty": (2, 0), "relay": (2, 256), "alone": (1, 256)}
"""vEUs and steps of the programs that launches and barriers are timed with."""


def pack(folder: Path, target: str, models: Sequence[str], limit: int) -> list[str]:
    """Write a kit of at most about ``limit`` bytes; return the names that found room.

    Raises:
        RammerError: if a model cannot be compiled for the target.
    """
    from rammer_mlir.benchmarks.models import MODELS
    from rammer_mlir.lowering.targets import find_gpu

    find_gpu(target)  # refuses others before anything is written
    folder.mkdir(parents=True, exist_ok=True)
    _pack_relays(folder, target)
    cases = [(name, "small") for name in models or MODELS]
    cases += [(name, "full") for name in models or FULL if name in FULL]
    packed: list[str] = []
    for name, scale in cases:
        case = f"{name}-{scale}"
        print(f"{case} ...", file=sys.stderr, flush=True)
        _pack_model(folder, case, target)
        if sum(file.stat().st_size for file in folder.iterdir()) > limit:
            for file in folder.glob(f"{case}.*"):
                file.unlink()
            continue
        packed.append(case)
    content = {"target": target, "cases": packed, "made": machine()}
    (folder / "kit.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return packed


def _pack_model(folder: Path, case: str, target: str) -> None:
    from rammer_mlir.benchmarks.contenders.onnx_runtime import OnnxRuntime
    from rammer_mlir.benchmarks.models import build, random_feeds

    name, _, scale = case.rpartition("-")
    model = build(name, scale="full" if scale == "full" else "small")
    feeds = random_feeds(model, 1)
    arrays = {f"in:{key}": value for key, value in feeds.items()}
    arrays |= {f"out:{key}": value for key, value in OnnxRuntime(model).run(feeds).items()}
    np.savez(folder / f"{case}.npz", allow_pickle=False, **arrays)
    for way, (policy, per_operator) in WAYS.items():
        compiled = rammer_mlir.compile(
            model, target=target, policy=policy, per_operator=per_operator
        )
        compiled.save(folder / f"{case}.{way}.rammer")


def _pack_relays(folder: Path, target: str) -> None:
    from rammer_mlir.benchmarks.relay import Relay

    for name, (num_veus, steps) in RELAYS.items():
        Relay(num_veus, steps).compile(target).save(folder / f"{name}.relay.rammer")


Open = Callable[[Path], GpuExecutable]


def open_artifact(path: Path) -> GpuExecutable:
    """Load a program for a GPU."""
    executable = rammer_mlir.load(path)
    if not isinstance(executable, GpuExecutable):
        raise OptionError(f"'{path}': expected a program for a GPU, found one for the CPU")
    return executable


def check(folder: Path, seconds: float, load: Open = open_artifact) -> dict[str, Any]:
    """Run a kit and return what was found: errors by case, latencies, relays.

    Raises:
        RammerError: if the folder is no kit, or there is no GPU.
    """
    try:
        content = json.loads((folder / "kit.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OptionError(
            f"'{folder}': expected a kit with a file kit.json, found none that can be read "
            f"({error}); write one with 'kit pack'"
        ) from error
    relay = load(folder / "relay.relay.rammer")
    device = relay.program.driver.name
    print(f"{device}, kit for {content['target']} of {content['made']['date']}", flush=True)
    found: dict[str, Any] = {"device": device, "errors": {}, "latencies": {}}
    relays = {name: load(folder / f"{name}.relay.rammer") for name in RELAYS}
    found["relays"] = time_relays(relays, seconds)
    for case in content["cases"]:
        try:
            found["latencies"][case] = _check_case(folder, case, seconds, load)
        except RammerError as error:
            found["errors"][case] = str(error)
            print(f"{case}: {error}", flush=True)
    return found


def _check_case(folder: Path, case: str, seconds: float, load: Open) -> dict[str, Latency]:
    with np.load(folder / f"{case}.npz") as file:
        feeds = {key[3:]: file[key] for key in file.files if key.startswith("in:")}
        expected = {key[4:]: file[key] for key in file.files if key.startswith("out:")}
    contenders: dict[str, Callable[[], object]] = {}
    for way in WAYS:
        executable = load(folder / f"{case}.{way}.rammer")
        for _ in range(3):  # step counters go on from run to run
            comparison = compare(expected, executable.run(feeds))
            if not comparison.ok:
                raise RammerError(f"{way} computes wrong numbers: {comparison}")
        contenders |= ways_to_run(way, executable, feeds)
    return interleave(contenders, seconds)


def ways_to_run(
    label: str, executable: GpuExecutable, feeds: Mapping[str, Array]
) -> dict[str, Callable[[], object]]:
    """Return runs that wait for their end, with inputs and outputs on the device: two for each."""
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
    """Check the relays, by their names in ``RELAYS``, and time them.

    Returns:
        Seconds of a launch of nothing, and of a wait for another vEU.

    Raises:
        RammerError: if a relay computes a wrong number.
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


def report(found: Mapping[str, Any]) -> str:
    """Return relays in microseconds, and a row for each case in milliseconds."""
    lines = [f"{name}: {seconds * 1e6:.2f} us" for name, seconds in found["relays"].items()]
    ways = [label for way in WAYS for label in (way, f"{way}, graph")]
    rows = [["model", *(f"{way} ms" for way in ways)]]
    rows += [
        [case, *(str(latencies[way]) for way in ways)]
        for case, latencies in found["latencies"].items()
    ]
    wrong = [f"{case}: {message}" for case, message in found["errors"].items()]
    return "\n".join([*lines, "", table(rows), *wrong])


@one_line_errors
def main(arguments: Sequence[str] | None = None) -> int:
    """Pack or check; 1 if something failed."""
    parser = argparse.ArgumentParser(prog="python -m rammer_mlir.benchmarks.gpu.kit")
    parser.add_argument("action", choices=("pack", "check"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--target", default="nvvm:sm_90")
    parser.add_argument("--models", nargs="+", default=[], help="default: all small, some large")
    parser.add_argument("--megabytes", type=float, default=1000.0, help="limit of a kit's size")
    parser.add_argument("--seconds", type=float, default=1.0, help="timing for each model")
    parser.add_argument("--output", type=Path, help="file for results as JSON")
    options = parser.parse_args(arguments)
    if options.action == "pack":
        limit = int(options.megabytes * 1e6)
        packed = pack(options.folder, options.target, options.models, limit)
        print(f"{len(packed)} models in {options.folder}")
        return 0
    found = check(options.folder, options.seconds)
    print(report(found))
    if options.output:
        place = {"device": found["device"], **machine()}
        latencies = {
            case: {way: asdict(latency) for way, latency in ways.items()}
            for case, ways in found["latencies"].items()
        }
        content = {"machine": place, **found, "latencies": latencies}
        options.output.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 1 if found["errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
