"""Time models with loops that are not unrolled, with this compiler and with ONNX Runtime.

``python -m rammer_mlir.benchmarks.loops`` has two kinds of models:

- A Scan over a small recurrent cell, with 100 and with 10,000 iterations; for comparison, a model
  of a single iteration, without a loop.
- Selective state space models (Mamba) with a Loop in each layer for the recurrence, written by hand
  and as PyTorch exports them.

ONNX Runtime has its graph optimizations on. Each contender runs in a separate process. The table
has the median, the shortest and the longest time of the runs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from rammer_mlir.benchmarks.mamba import Feeds, exported, filled, floats, written

_WIDTH = 128
"""Number of elements of the small cell's state."""


def cell(steps: int) -> tuple[onnx.ModelProto, Feeds]:
    """Return a model that is a Scan with ``steps`` iterations of a recurrent cell, and its inputs.

    An iteration computes ``s = tanh(s @ w + x @ u)`` for a state ``s`` and an input ``x``.
    """
    d = _WIDTH
    text = f"""(float[{steps},1,{d}] xs, float[1,{d}] h0)
      => (float[1,{d}] h, float[{steps},1,{d}] y) {{
      h, y = Scan<num_scan_inputs = 1, body = b (float[1,{d}] s, float[1,{d}] x)
        => (float[1,{d}] t, float[1,{d}] o) {{ {_STEP}  o = Identity(t) }}>(h0, xs) }}"""
    return filled(text, _cell_weights()), {"xs": floats(steps, 1, d), "h0": floats(1, d)}


def body() -> tuple[onnx.ModelProto, Feeds]:
    """Return a model of a single iteration of ``cell``, without a loop, and its inputs."""
    d = _WIDTH
    text = f"""(float[1,{d}] s, float[1,{d}] x) => (float[1,{d}] t, float[1,{d}] o) {{
      {_STEP}  o = Identity(t) }}"""
    return filled(text, _cell_weights()), {"s": floats(1, d), "x": floats(1, d)}


_STEP = "a = MatMul(s, w)  c = MatMul(x, u)  e = Add(a, c)  t = Tanh(e)"


def _cell_weights() -> Mapping[str, tuple[int, ...]]:
    return {"w": (_WIDTH, _WIDTH), "u": (_WIDTH, _WIDTH)}


def _ours(model: onnx.ModelProto, threads: int) -> Callable[[Feeds], Any]:
    import rammer_mlir

    return rammer_mlir.compile(model, num_veus=threads, cache=False).run


def _onnx_runtime(model: onnx.ModelProto, threads: int) -> Callable[[Feeds], Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]

    def run(feeds: Feeds) -> dict[str, Any]:
        return dict(zip(names, session.run(names, feeds), strict=True))

    return run


_FEWEST_RUNS = 5

_CONTENDERS = {"ours": _ours, "ONNX Runtime": _onnx_runtime}

_CASES: dict[str, Callable[[], tuple[onnx.ModelProto, Feeds]]] = {
    "cell, its body alone": body,
    "cell, 100 steps": lambda: cell(100),
    "cell, 10,000 steps": lambda: cell(10_000),
    "Mamba by hand, 22 layers, 100 frames": lambda: written(22, 100),
    "Mamba of PyTorch, 22 layers, 200 frames": lambda: exported(22),
    "the same without slices of all": lambda: exported(22, has_slices=False),
}


def _measure(case: str, contender: str, threads: int, seconds: float, output: Path) -> None:
    """Time a case with a contender for about ``seconds`` seconds, and print the times as JSON.

    Args:
        case: name of a model in ``_CASES``.
        contender: "ours" or "ONNX Runtime".
        threads: number of threads of the contender.
        seconds: time for repeated runs.
        output: file that the first output of the model is written to, to compare contenders.
    """
    model, feeds = _CASES[case]()
    begin = time.perf_counter()
    run = _CONTENDERS[contender](model, threads)
    found = run(feeds)
    first = time.perf_counter() - begin
    times: list[float] = []
    processor: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < _FEWEST_RUNS:
        begin, used = time.perf_counter(), time.process_time()
        run(feeds)
        times.append(time.perf_counter() - begin)
        processor.append(time.process_time() - used)
    np.save(output, next(iter(found.values())))
    print(json.dumps({"first": first, "times": times, "processor": processor}))


def _row(case: str, threads: int, seconds: float) -> str:
    outputs: list[NDArray[np.float32]] = []
    medians: list[float] = []
    used: list[float] = []
    texts: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for contender in _CONTENDERS:
            path = Path(folder) / f"{len(outputs)}.npy"
            command = [sys.executable, "-m", "rammer_mlir.benchmarks.loops", "--one", case]
            command += [contender, "--threads", str(threads), "--seconds", str(seconds)]
            done = subprocess.run([*command, "-o", str(path)], stdout=subprocess.PIPE, check=True)
            found = json.loads(done.stdout.splitlines()[-1])
            times = sorted(found["times"])
            medians.append(statistics.median(times))
            used.append(statistics.median(found["processor"]))
            texts.append(
                f"{medians[-1] * 1e3:.3f} ({times[0] * 1e3:.3f} to {times[-1] * 1e3:.3f}), "
                f"processor {used[-1] * 1e3:.3f}, first {found['first']:.1f} s"
            )
            outputs.append(np.load(path))
    error = float(np.abs(outputs[0] - outputs[1]).max() / np.abs(outputs[1]).max())
    ratios = f"{medians[1] / medians[0]:.2f} | {used[1] / used[0]:.2f}"
    return f"| {case} | {texts[0]} | {texts[1]} | {ratios} | {error:.1e} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the cases that the command line selects, and print a table; return exit code 0."""
    parser = argparse.ArgumentParser(prog="loops", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threads", type=int, default=2, help="vEUs, or ONNX Runtime's threads")
    parser.add_argument("--seconds", type=float, default=3, help="of each contender and case")
    parser.add_argument("--cases", default="*", help="a pattern of their names")
    parser.add_argument("--one", nargs=2, metavar=("CASE", "CONTENDER"), help=argparse.SUPPRESS)
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("out.npy"), help=argparse.SUPPRESS
    )
    options = parser.parse_args(arguments)
    if options.one is not None:
        case, contender = options.one
        _measure(case, contender, options.threads, options.seconds, options.output)
        return 0
    print(f"{options.threads} threads; milliseconds of a run, median (from least to most)\n")
    print("| case | ours | ONNX Runtime | times as fast | less processor time | error |")
    print("|---|---|---|---|---|---|")
    for case in [case for case in _CASES if fnmatch(case, options.cases)]:
        print(_row(case, options.threads, options.seconds), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
