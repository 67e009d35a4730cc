"""Make tables of predicted times and waits of random modules (small operator graphs).

The tables belong to RAMMER's section 5.2.5 and figure 18.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from statistics import mean, quantiles
from typing import Any

from rammer_mlir.benchmarks.machine import table
from rammer_mlir.benchmarks.papers.exhibit import ratio
from rammer_mlir.benchmarks.papers.rammer import barriers
from rammer_mlir.benchmarks.papers.study import Records

_MISSING = "-"


def _modules(records: Records) -> dict[str, Any]:
    """Return a single record of all modules, joined from the records of ``barriers.measure``.

    All records have the same keys. The lists under a key are concatenated. The value of "example"
    is that of the record whose module gains most by barriers between tiles.
    """
    parts = [records.of(barriers.STUDY.name, case.key) for case in barriers.STUDY.cases]
    joined: dict[str, Any] = {
        name: list(chain.from_iterable(part[name] for part in parts))
        for name in ("base_to_rtask", "launch_free", "irregular", "wave_to_tile",
                     "operator_to_tile")
    }  # fmt: skip
    for name in ("requested", "waits"):
        joined[name] = {
            mode: list(chain.from_iterable(part[name][mode] for part in parts))
            for mode in barriers.MODES
        }
    joined["example"] = max(parts, key=lambda part: max(part["wave_to_tile"]))["example"]
    return joined


def section_5_2_5(records: Records) -> str:
    """Return Markdown tables of ratios of predicted times, and of mean numbers of waits.

    The ratios compare RammerBase with Rammer, and coarser barriers with barriers between tiles.
    They reproduce the numbers in the text of RAMMER's section 5.2.5.
    """
    found = _modules(records)
    irregular = [n for n, is_one in enumerate(found["irregular"]) if is_one]
    rows = [["ratio of predicted times", "modules", "mean", "median", "95%", "most", "paper"]]
    for title, values, paper in (
        ("base to Rammer", found["base_to_rtask"], "1.28, most 3.40"),
        ("base without launches to Rammer", found["launch_free"], _MISSING),
        ("wave to tile barriers, irregular", [found["wave_to_tile"][n] for n in irregular],
         "1.11, most 1.89"),
        ("operator to tile barriers, irregular",
         [found["operator_to_tile"][n] for n in irregular], _MISSING),
    ):  # fmt: skip
        rows.append([title, str(len(values)), *_spread(values), paper])
    waits = [["barriers", "waits requested", "waits after minimizing"]]
    for mode in barriers.MODES:
        means = (mean(found[name][mode]) for name in ("requested", "waits"))
        waits.append([mode, *(f"{value:.0f}" for value in means)])
    share = len(irregular) / len(found["irregular"])
    return (
        f"{table(rows)}\n\nIrregular modules: {share:.1%} (paper: 28.3%). Waits of a module, mean:"
        f"\n\n{table(waits)}"
    )


def _spread(values: Sequence[float]) -> list[str]:
    cuts = quantiles(values, n=20, method="inclusive")
    return [ratio(value) for value in (mean(values), cuts[9], cuts[18], max(values))]


def figure_18(records: Records) -> str:
    """Return RAMMER's figure 18 as a Markdown table: the operators of one random module.

    This is the module for which barriers between tiles gain most over barriers between waves. A row
    has an operator's wave, its number of rTasks, and the microseconds of an rTask.
    """
    found = _modules(records)
    example = found["example"]
    rows = [["operator", "wave", "rTasks", "microseconds of an rTask"]]
    for operator in example["operators"]:
        rows.append([operator["name"], str(operator["wave"]), str(operator["rtasks"]),
                     f"{operator['microseconds']:.1f}"])  # fmt: skip
    most = max(found["wave_to_tile"])
    return (
        f"Module {example['module']}: tile barriers are {most:.2f} times faster.\n\n{table(rows)}"
    )
