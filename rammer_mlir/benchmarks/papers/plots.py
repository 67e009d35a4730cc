"""Draw bar charts of the papers' figures (exhibits) as SVG files."""

from __future__ import annotations

from pathlib import Path

from rammer_mlir.benchmarks.contenders.protocol import required
from rammer_mlir.benchmarks.papers.exhibit import Plot

_COLORS = ("#0b6fa4", "#d1690e", "#5b8c3e", "#8a5aa3", "#7d7d7d")
_GROUP_WIDTH = 0.8


def draw(plot: Plot, folder: Path) -> None:
    """Draw the bar chart ``plot`` as an SVG file in ``folder``, named after the chart.

    Raises:
        TargetError: if matplotlib is not installed.
    """
    matplotlib = required("matplotlib")
    required("matplotlib.figure")
    folder.mkdir(parents=True, exist_ok=True)
    # Text stays text, and equal numbers give equal files (no random ids).
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "rammer", "font.size": 8}):
        figure = matplotlib.figure.Figure(figsize=(7.0, 2.6), layout="constrained")
        panel = figure.subplots()
        width = _GROUP_WIDTH / len(plot.series)
        for number, name in enumerate(plot.series):
            bars = [(place, heights[number]) for place, (_, heights) in enumerate(plot.groups)]
            known = [(place, height) for place, height in bars if height is not None]
            offset = (number + 0.5) * width - _GROUP_WIDTH / 2
            panel.bar(
                [place + offset for place, _ in known], [height for _, height in known],
                width, label=name, color=_COLORS[number % len(_COLORS)],
            )  # fmt: skip
        panel.set_xticks(range(len(plot.groups)), [name for name, _ in plot.groups])
        panel.set_ylabel(plot.unit)
        panel.grid(axis="y", color="#dddddd", linewidth=0.5)
        panel.set_axisbelow(True)
        panel.legend(ncols=len(plot.series), loc="upper left", bbox_to_anchor=(0, 1.18))
        figure.savefig(folder / f"{plot.name}.svg", metadata={"Date": None})
