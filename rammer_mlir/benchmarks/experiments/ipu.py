"""RAMMER's recurrent models on an IPU (RAMMER section 5.3.2, figure 20), on the simulator.

As in the paper, their stacks have 4 layers, so that they fit into the memories of its tiles, and
batches are of one. RammerBase executes operator after operator (`sequential`), Rammer is
`wavefront`; both in supersteps, and with the rKernels that this project makes. Below the table
stands what does not fit all the same.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import onnx

from rammer_mlir.benchmarks.command import one_line_errors
from rammer_mlir.benchmarks.machine import table
from rammer_mlir.benchmarks.models.recurrent_models import (
    build_deepspeech2,
    build_lstm_tc,
    build_seq2seq,
)
from rammer_mlir.benchmarks.models.scale import Scale
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options
from rammer_mlir.errors import RammerError
from rammer_mlir.passes.program.program_ir import read_plan

LAYERS = 4

BUILDERS = {
    "deepspeech2": build_deepspeech2,
    "lstm_tc": build_lstm_tc,
    "seq2seq": build_seq2seq,
}


def predict(model: onnx.ModelProto, policy: str) -> tuple[float, int]:
    """Return the predicted seconds of a model on the IPU, and its number of supersteps."""
    options = check_options("cpu", policy=policy, num_veus=None, costs="ipu")
    compilation = Compilation.of_model(model, options)
    compilation.emit("program")
    plan = read_plan(compilation.module).plan
    return plan.predicted_seconds, len(plan.programs)


def compare(name: str, scale: Scale = "full") -> list[str]:
    """Return a row: both predicted times, their ratio, and both numbers of supersteps."""
    model = BUILDERS[name](1, scale, unrolled=True, layers=LAYERS)
    base, base_steps = predict(model, "sequential")
    rammer, rammer_steps = predict(model, "wavefront")
    return [
        name,
        f"{1e3 * base:.3f}",
        f"{1e3 * rammer:.3f}",
        f"{base / rammer:.2f}",
        str(base_steps),
        str(rammer_steps),
    ]


@one_line_errors
def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m rammer_mlir.benchmarks.experiments.ipu", description=__doc__
    )
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(BUILDERS))
    parser.add_argument("--scale", choices=("full", "small"), default="full")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.models if name not in BUILDERS]
    if unknown:
        parser.error(f"expected models of {', '.join(BUILDERS)}, found '{unknown[0]}'")
    rows = [["model", "RammerBase ms", "Rammer ms", "ratio", "supersteps", "supersteps"]]
    refused: list[str] = []
    for name in options.models or BUILDERS:
        try:
            rows.append(compare(name, options.scale))
        except RammerError as error:
            refused.append(f"{name}: {error}")
    print(table(rows), *refused, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
