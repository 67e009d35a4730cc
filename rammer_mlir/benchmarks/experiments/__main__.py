"""Compare policies on random networks: ``python -m rammer_mlir.benchmarks.experiments``."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, quantiles

from rammer_mlir.benchmarks.command import one_line_errors
from rammer_mlir.benchmarks.experiments.nasbench import random_module
from rammer_mlir.errors import OptionError
from rammer_mlir.scheduling.devices.catalog import cpu_device
from rammer_mlir.scheduling.policies import get_policy
from rammer_mlir.scheduling.policies.optimal import Optimal
from rammer_mlir.scheduling.verifier import verify

HEURISTICS = ("sequential", "wavefront", "ios", "list")
EXACT = 1e-5
"""A plan counts as proven optimal if less than this share of its time could be saved."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m rammer_mlir.benchmarks.experiments", description=__doc__
    )
    parser.add_argument("--modules", type=int, default=100, help="the paper has 5,000")
    parser.add_argument("--proofs", type=int, default=0, help="modules to solve with 'optimal'")
    parser.add_argument("--limit", type=float, default=10.0, help="seconds for each proof")
    parser.add_argument(
        "--patience", type=float, default=1.0,
        help="how many times the limit a proof may last in which others have the processor",
    )  # fmt: skip
    parser.add_argument("--veus", type=int, nargs="+", default=[4, 8, 16])
    parser.add_argument("--output", type=Path, default=Path("build/experiments"))
    return parser


def policies(modules: int, num_veus: int) -> dict[str, object]:
    """Compare policies on ``modules`` random NAS-Bench-101 modules, for a CPU of ``num_veus`` vEUs.

    Returns:
        For each policy but `sequential`, the speed-up over `sequential` that the simulator
        predicts: mean, range and quantiles over the modules.
    """
    device = cpu_device(num_veus)
    speedups: dict[str, list[float]] = {name: [] for name in HEURISTICS[1:]}
    for seed in range(modules):
        graph = random_module(seed)
        seconds: dict[str, float] = {}
        for name in HEURISTICS:
            plan = get_policy(name).schedule(graph, device)
            verify(graph, plan)
            seconds[name] = plan.predicted_seconds
        for name, found in speedups.items():
            found.append(seconds["sequential"] / seconds[name])
    return {name: _spread(found) for name, found in speedups.items()}


def proofs(modules: int, num_veus: int, limit: float, patience: float) -> dict[str, object]:
    """Search for optimal schedules of random NAS-Bench-101 modules with the policy `optimal`.

    Args:
        modules: number of modules.
        num_veus: number of vEUs of the CPU that the modules are scheduled for.
        limit: processor seconds within which a proof of optimality counts.
        patience: time limit of a search, as a multiple of ``limit``.

    Returns:
        A dictionary. "proven" is the fraction of modules with a proof within ``limit``. The other
        keys have mean, range and quantiles over the modules:

        - "seconds": processor seconds of a search.
        - "gap": largest fraction of the found schedule's predicted time that another schedule could
          save.
        - "list over bound": predicted time of the policy `list` divided by the lower bound of
          `optimal`, minus 1.
    """
    device = cpu_device(num_veus)
    gaps: list[float] = []
    over: list[float] = []
    taken: list[float] = []
    for seed in range(modules):
        graph = random_module(seed)
        begin = time.process_time()
        proof = Optimal(limit * patience).prove(graph, device)
        taken.append(time.process_time() - begin)
        verify(graph, proof.plan)
        gaps.append(proof.gap)
        seconds = get_policy("list").schedule(graph, device).predicted_seconds
        over.append(seconds / proof.bound - 1)
    in_time = [gap < EXACT and t <= limit for gap, t in zip(gaps, taken, strict=True)]
    return {
        "proven": mean(in_time),
        "seconds": _spread(taken),
        "gap": _spread(gaps),
        "list over bound": _spread(over),
    }


def _spread(values: Sequence[float]) -> dict[str, float]:
    cuts = quantiles(values, n=20, method="inclusive")
    return {
        "mean": mean(values),
        "min": min(values),
        "median": cuts[9],
        "95%": cuts[18],
        "max": max(values),
    }


@one_line_errors
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the experiments, print the results and write them to ``experiments.json``; return 0.

    The experiments compare the policies on ``--modules`` random NAS-Bench-101 modules and, if
    ``--proofs`` is not 0, search for optimal schedules of ``--proofs`` random modules.

    Raises:
        OptionError: if ``--modules`` is less than 2, or ``--proofs`` is 1.
    """
    options = _parser().parse_args(arguments)
    if options.modules < 2 or options.proofs == 1:
        raise OptionError("modules: expected at least 2 (or 0 proofs) for a distribution")
    results: dict[str, object] = {}
    for veus in options.veus:
        found: dict[str, object] = {"speed-up": policies(options.modules, veus)}
        if options.proofs:
            found["optimal"] = proofs(options.proofs, veus, options.limit, options.patience)
        results[f"{veus} vEUs"] = found
        print(f"{veus} vEUs: {json.dumps(found)}", flush=True)
    options.output.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"modules": options.modules, "results": results}, indent=2)
    (options.output / "experiments.json").write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
