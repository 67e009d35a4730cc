"""Measure the import of large ONNX models: ``python -m rammer_mlir.benchmarks.imports``.

Each model is imported from a file in a separate process. The table has the time, the growth of the
importing process's peak memory, and the bytes of the weights.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from rammer_mlir.benchmarks.memory import peak_bytes

_SHAPE = (4, 8)
_WIDE = 8192
"""Number of columns of each weight of ``weights``: 8 rows of f32 have 256 KiB."""

Nodes = list[onnx.NodeProto]
Weights = dict[str, np.ndarray]


def chain(count: int, rng: np.random.Generator) -> tuple[Nodes, Weights]:
    """Return nodes, each of which reads the previous node's result, and their weights by name.

    The operators of the ``count`` nodes are MatMul, Add, Relu and Tanh, repeated in this order.
    MatMul and Add have small weights.
    """
    nodes: Nodes = []
    weights: Weights = {}
    for n in range(count):
        operator = ("MatMul", "Add", "Relu", "Tanh")[n % 4]
        inputs = [f"v{n}"]
        if n % 4 < 2:
            shape = (8, 8) if operator == "MatMul" else (8,)
            weights[f"w{n}"] = rng.standard_normal(shape).astype(np.float32) / 3
            inputs.append(f"w{n}")
        nodes.append(helper.make_node(operator, inputs, [f"v{n + 1}"], f"n{n}"))
    return nodes, weights


def tree(count: int, _: np.random.Generator) -> tuple[Nodes, Weights]:
    """Return the nodes of a binary tree, and no weights.

    Leaves are elementwise functions of the input. Each inner node adds the results of its two
    children, so that the root is the sum of all leaves. There are about ``count`` nodes.
    """
    leaves = (count + 1) // 2
    kinds = ("Relu", "Tanh", "Sigmoid")
    nodes = [helper.make_node(kinds[n % 3], ["v0"], [f"t{n}"], f"n{n}") for n in range(leaves)]
    for n in range(leaves, 2 * leaves - 1):
        pair = [f"t{2 * (n - leaves)}", f"t{2 * (n - leaves) + 1}"]
        nodes.append(helper.make_node("Add", pair, [f"t{n}"], f"n{n}"))
    nodes[-1].output[0] = f"v{count}"
    return nodes, {}


def weights(count: int, rng: np.random.Generator) -> tuple[Nodes, Weights]:
    """Return about ``count`` nodes, a third of which have a large weight each.

    The operators are MatMul with a large weight, ReduceMean and Add, repeated in this order.
    """
    nodes: Nodes = []
    values: Weights = {"axes": np.array([1])}
    for n in range(0, count, 3):
        values[f"w{n}"] = rng.standard_normal((8, _WIDE), np.float32)
        names = f"v{n}", f"p{n}", f"m{n}"
        following = f"v{min(n + 3, count)}"
        nodes += [
            helper.make_node("MatMul", [names[0], f"w{n}"], [names[1]], f"n{n}"),
            helper.make_node("ReduceMean", [names[1], "axes"], [names[2]], f"n{n + 1}"),
            helper.make_node("Add", [names[2], names[0]], [following], f"n{n + 2}"),
        ]
    return nodes, values


KINDS: dict[str, Callable[[int, np.random.Generator], tuple[Nodes, Weights]]] = {
    "chain": chain,
    "tree": tree,
    "weights": weights,
}


def large_model(kind: str, count: int) -> onnx.ModelProto:
    """Return an ONNX model of about ``count`` nodes, for measurements of the import.

    ``kind`` is "chain", "tree" or "weights"; the functions of these names make the nodes. The
    model's input is ``v0``; its output has the same shape.
    """
    nodes, values = KINDS[kind](count, np.random.default_rng(0))
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, _SHAPE)
        for name in ("v0", f"v{count}")
    ]
    tensors = [numpy_helper.from_array(value, name) for name, value in values.items()]
    graph = helper.make_graph(nodes, kind, ends[:1], ends[1:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def measure_here(path: str) -> dict[str, float]:
    """Import the ONNX model in the file ``path``, and return the cost.

    Returns:
        A dictionary:

        - ``seconds``: wall-clock time of the import.
        - ``cpu_seconds``: processor time of the import.
        - ``bytes``: growth of the process's peak memory.
        - ``weights``: bytes of all weights.
    """
    from rammer_mlir.frontends.onnx import import_model

    import_model(large_model("chain", 4))  # loads modules and dialects, a one-time cost
    before, begin, cpu = peak_bytes(), time.perf_counter(), time.process_time()
    found = import_model(path)
    return {
        "seconds": time.perf_counter() - begin,
        "cpu_seconds": time.process_time() - cpu,
        "bytes": peak_bytes() - before,
        "weights": sum(value.nbytes for value in found.constants.values()),
    }


def measure(path: Path) -> dict[str, float]:
    """Call ``measure_here`` with ``path`` in a separate process; return its result."""
    done = subprocess.run(
        [sys.executable, "-m", __spec__.name if __spec__ else __name__, "--file", str(path)],
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(done.stdout)


def main(argv: Sequence[str] | None = None) -> int:
    """Import models of each kind and size, and print a table of time and memory; return 0.

    Only the first size of the kind "weights" is imported.
    """
    parser = argparse.ArgumentParser(description="Time and memory of importing large models.")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--nodes", nargs="+", type=int, default=[5_000, 20_000, 100_000])
    parser.add_argument("--file", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.file:
        print(json.dumps(measure_here(options.file)))
        return 0
    print("| model | nodes | s | CPU s | MiB | MiB of weights |\n|---|---|---|---|---|---|")
    for kind in options.kinds:
        # 8 GiB of weights would say no more than 400 MiB do.
        for count in options.nodes if kind != "weights" else options.nodes[:1]:
            with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
                file.write(large_model(kind, count).SerializeToString())
                file.flush()
                found = measure(Path(file.name))
            sizes = f"{found['bytes'] / 2**20:.0f} | {found['weights'] / 2**20:.0f}"
            times = f"{found['seconds']:.1f} | {found['cpu_seconds']:.1f}"
            print(f"| {kind} | {count} | {times} | {sizes} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
