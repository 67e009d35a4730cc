"""Draw the ratios of other contenders' latencies to those of this compiler."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rammer_mlir.benchmarks.bench import Result
from rammer_mlir.benchmarks.contenders.protocol import required
from rammer_mlir.benchmarks.contenders.table import RIVALS
from rammer_mlir.benchmarks.latencies import measured_contenders, policies_of, ratios

_MARKERS = ("o", "D")
_COLORS = ("#0b6fa4", "#d1690e")
_ROW_INCHES = 0.24


def plot_ratios(results: Sequence[Result], path: Path) -> None:
    """Draw, for every model, the ratio of other contenders' latencies to this compiler's latency.

    If several scheduling policies of this compiler were measured, the latency with the first policy
    counts. Each count of threads has a subplot.

    Args:
        results: the measured models.
        path: the SVG or PNG file to write.

    Raises:
        TargetError: if matplotlib is not installed.
    """
    matplotlib = required("matplotlib")
    required("matplotlib.figure")
    policy, found = policies_of(results)[0], ratios(results)
    models = [result.request.model for result in results][::-1]
    columns = sorted({ratio.threads for ratio in found})
    others = [name for name in RIVALS if name in measured_contenders(results)]
    # Text stays text, and equal numbers give equal files (no date, no random ids).
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "rammer", "font.size": 8}):
        size = (1.5 + 3.2 * len(columns), 1.2 + _ROW_INCHES * len(models))
        figure = matplotlib.figure.Figure(figsize=size, layout="constrained", facecolor="white")
        panels = figure.subplots(1, max(len(columns), 1), sharey=True, squeeze=False)[0]
        for panel, threads in zip(panels, columns, strict=False):
            for contender, marker, color in zip(others, _MARKERS, _COLORS, strict=False):
                key = threads, policy, contender
                points = [(r.value, models.index(r.model)) for r in found
                          if (r.threads, r.policy, r.contender) == key]  # fmt: skip
                x, y = zip(*points, strict=True) if points else ((), ())
                panel.scatter(x, y, s=16, marker=marker, color=color, label=contender, zorder=3)
            _decorate(panel, threads, policy)
        panels[0].set_yticks(range(len(models)), models)
        panels[0].legend(loc="lower right")
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


# Any: matplotlib is not installed where types are checked.
def _decorate(panel: Any, threads: int, policy: str) -> None:
    panel.set_xscale("log", base=2)
    panel.axvline(1.0, color="black", linewidth=0.8)
    panel.grid(axis="both", color="#dddddd", linewidth=0.5)
    panel.xaxis.set_major_formatter("{x:g}")
    panel.set_title(f"{threads} thread{'s' if threads > 1 else ''}")
    panel.set_xlabel(f"latency over that of {policy} (right of 1: we are faster)")
