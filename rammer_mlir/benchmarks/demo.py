"""Compile, run, check, time and display a real network in one command."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import onnx

import rammer_mlir
from rammer_mlir.benchmarks.command import one_line_errors
from rammer_mlir.benchmarks.comparison import compare
from rammer_mlir.benchmarks.contenders.onnx_runtime import OnnxRuntime
from rammer_mlir.benchmarks.models import LIGHT, Scale, build, random_feeds
from rammer_mlir.benchmarks.timing import interleave
from rammer_mlir.cli import run as run_tool

DEFAULT = "light_squeezenet"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m rammer_mlir.benchmarks.demo")
    parser.add_argument("--model", choices=list(LIGHT), default=DEFAULT)
    parser.add_argument("--scale", choices=("full", "small"), default="full")
    parser.add_argument("--policy", default="wavefront")
    parser.add_argument("--veus", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=3.0, help="how long to time")
    parser.add_argument("--output", type=Path, default=Path("build/demo"))
    return parser


def _say(step: int, text: str) -> None:
    print(f"[{step}/5] {text}", flush=True)


def demonstrate(options: argparse.Namespace) -> bool:
    """Compile, run, check, time and display the network that the command's ``options`` name.

    Return True if the outputs match ONNX Runtime's and the timeline was written, else False.
    """
    folder: Path = options.output
    folder.mkdir(parents=True, exist_ok=True)
    model = _model(options.model, options.scale, folder / f"{options.model}.onnx")
    veus, policy = options.veus, options.policy

    _say(2, f"compile for the CPU: policy {policy}, {veus} vEUs")
    start = time.perf_counter()
    executable = rammer_mlir.compile(model, target="cpu", policy=policy, num_veus=veus, cache=False)
    artifact = folder / f"{options.model}.rammer"
    executable.save(artifact)
    print(f"      {time.perf_counter() - start:.2f} s, written to {artifact}")

    _say(3, "run, and compare with ONNX Runtime")
    feeds = random_feeds(model)
    reference = OnnxRuntime(model, veus)
    comparison = compare(reference.run(feeds), executable.run(feeds))
    print(f"      {'match' if comparison.ok else 'MISMATCH'}: {comparison}")

    _say(4, f"time both for {options.seconds:.0f} s, in turns, {veus} threads each")
    contenders = {
        "rammer-mlir": lambda: executable.run(feeds),
        "onnxruntime": lambda: reference.run(feeds),
    }
    for name, latency in interleave(contenders, options.seconds).items():
        print(f"      {name}: {latency} ms (median [quartiles] of {latency.runs} runs)")

    timeline = folder / f"{options.model}.json"
    _say(5, f"timeline in {timeline}: open it at https://ui.perfetto.dev")
    status = run_tool.main([str(artifact), "--timeline", str(timeline)])
    return comparison.ok and status == 0


def _model(name: str, scale: Scale, path: Path) -> onnx.ModelProto:
    _say(1, f"take {name} ({LIGHT[name].description}) from the onnx package, with random weights")
    model = build(name, scale=scale)
    onnx.save(model, path)
    print(f"      {len(model.graph.node)} nodes, {model.ByteSize() / 1e6:.1f} MB, in {path}")
    return model


@one_line_errors
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demonstration; return 1 if the outputs are wrong or a step failed, else 0."""
    options = _parser().parse_args(arguments)
    return 0 if demonstrate(options) else 1


if __name__ == "__main__":
    sys.exit(main())
