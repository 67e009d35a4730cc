"""Threads that compile, run, save and load random models for some seconds.

``python -m tests.compiler.busy_threads SECONDS`` prints the numbers of models with right results.
Code that is not safe in several threads can end its process, so that the tests start this program
in a process of its own.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import parser

import rammer_mlir
from rammer_mlir import dialects
from rammer_mlir.bindings import ir

THREADS = 8

FloatArray = NDArray[np.float32]


def softmax_model(rows: int, inner: int) -> onnx.ModelProto:
    """Return a model of ``softmax(tanh(x @ w))``."""
    return parser.parse_model(f"""
        <ir_version: 10, opset_import: ["": 21]>
        g (float[{rows},{inner}] x, float[{inner},{rows}] w) => (float[{rows},{rows}] y)
        {{ a = MatMul(x, w) b = Tanh(a) y = Softmax(b) }}""")


def softmax_of(x: FloatArray, w: FloatArray) -> NDArray[np.float64]:
    """Return ``softmax(tanh(x @ w))``, the result of ``softmax_model``, in f64."""
    powers = np.exp(np.tanh(x.astype(np.float64) @ w))
    return powers / powers.sum(axis=1, keepdims=True)


def compile_until(end: float, number: int, folder: Path) -> int:
    """Compile, save, load and run models until ``end``; return the number of models.

    ``end`` is a time of ``time.monotonic()``. ``number`` is the seed of the sizes and inputs, and
    determines the number of vEUs and the use of the compile cache.
    """
    random = np.random.default_rng(number)
    path = folder / f"{number}.rammer"
    count = 0
    while time.monotonic() < end:
        rows, inner = (int(size) for size in random.integers(2, 40, 2))
        x = random.standard_normal((rows, inner), np.float32)
        w = random.standard_normal((inner, rows), np.float32)
        model = softmax_model(rows, inner)
        with rammer_mlir.compile(model, num_veus=1 + number % 3, cache=number % 2 == 0) as compiled:
            compiled.save(path)
            with rammer_mlir.load(path) as loaded:
                for executable in (compiled, loaded):
                    found = executable.run({"x": x, "w": w})["y"]
                    assert np.allclose(found, softmax_of(x, w), rtol=1e-4)
        count += 1
    return count


def register_until(end: float) -> int:
    """Load the dialect into new contexts until ``end``; return the number of contexts.

    Four threads load the dialect into the same context at the same time.
    """
    count = 0
    while time.monotonic() < end:
        context = ir.Context()
        threads = [threading.Thread(target=dialects.register, args=[context]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert context.is_dialect_loaded("rtask")
        count += 1
    return count


def main() -> None:
    """Run all threads for the seconds that the command line gives.

    Print the number of models of each compiling thread, and the number of contexts.
    """
    end = time.monotonic() + float(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(THREADS + 1) as executor:
        registering = executor.submit(register_until, end)
        compiling = [
            executor.submit(compile_until, end, number, Path(folder)) for number in range(THREADS)
        ]
        print("models", *(future.result() for future in compiling))
        print("contexts", registering.result())


if __name__ == "__main__":
    main()
