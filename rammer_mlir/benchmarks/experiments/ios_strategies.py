"""IOS's five schedules of a network, compared on the simulator.

Sequential, greedy (all operators that are ready are a stage), merging only, concurrent execution
only, and both (IOS section 6.1, figure 7). With merging only, the best of a few bounds on the
arithmetic's growth is taken for a whole network; with both, merging is a choice for each stage. A
restriction's schedule is taken where it is predicted to be faster.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import onnx

from rammer_mlir.benchmarks.command import one_line_errors
from rammer_mlir.benchmarks.machine import table
from rammer_mlir.benchmarks.models import Scale, build
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options
from rammer_mlir.passes.program.program_ir import read_plan

SCHEDULES: dict[str, tuple[str, bool]] = {
    "sequential": ("sequential", False),
    "greedy": ("wavefront", False),
    "merge": ("sequential", True),
    "parallel": ("ios", False),
    "both": ("ios", True),
}
"""Policy, and whether operators are merged."""

GROWTHS = {"sequential": (1.0, 2.0, 4.0), "ios": (4.0,)}
"""Bounds on the growth of the arithmetic that are tried: `ios` chooses for each stage by itself."""


def predict(model: onnx.ModelProto, target: str, policy: str, growth: float) -> float:
    """Return the predicted seconds of a model for a target."""
    compilation = Compilation.of_model(
        model, check_options(target, policy=policy, num_veus=None, merge=growth)
    )
    compilation.emit("program")
    return read_plan(compilation.module).plan.predicted_seconds


def compare(name: str, target: str, batch: int, scale: Scale = "full") -> dict[str, float]:
    """Return the predicted seconds of each schedule of a benchmark model."""
    model = build(name, batch, scale)
    found: dict[str, float] = {}
    for schedule, (policy, is_merged) in SCHEDULES.items():
        alone = predict(model, target, policy, 0.0) if schedule != "both" else found["parallel"]
        merged = [
            predict(model, target, policy, growth)
            for growth in GROWTHS.get(policy, ())
            if is_merged
        ]
        found[schedule] = min([alone, *merged])
    return found


@one_line_errors
def main(arguments: Sequence[str] | None = None) -> int:
    """Print predicted times, and the speed-up of each schedule over the sequential one."""
    parser = argparse.ArgumentParser(
        prog="python -m rammer_mlir.benchmarks.experiments.ios_strategies", description=__doc__
    )
    parser.add_argument("models", nargs="*", default=["squeezenet", "inception_v3"])
    parser.add_argument("--target", default="nvvm:sm_70")
    parser.add_argument("--batch", type=int, default=1)
    options = parser.parse_args(arguments)
    rows = [["model", *SCHEDULES]]
    for name in options.models:
        found = compare(name, options.target, options.batch)
        first = found["sequential"]
        rows.append([name, *(f"{1e3 * s:.3f} ms ({first / s:.2f})" for s in found.values())])
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
