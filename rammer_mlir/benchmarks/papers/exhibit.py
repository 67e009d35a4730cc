"""Define exhibits: figures and tables that are made from the records of studies.

A study is a set of cases that are measured alike. A record has the numbers of a case.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from rammer_mlir.benchmarks.papers.study import Records

Basis = Literal["predicted", "measured", "counted", "not repeated"]
"""Origin of our numbers; ``not repeated`` needs unavailable hardware or software."""

Figures = Callable[[Records], str]
"""A function that shows the records of studies as Markdown."""


@dataclass(frozen=True)
class Plot:
    """A bar chart with groups of bars.

    Attributes:
        name: name of the chart's file, without extension.
        unit: quantity and unit on the vertical axis.
        series: names of the bars in each group.
        groups: the name of each group, and the heights of its bars in the order of ``series``; None
            for a missing bar.
    """

    name: str
    unit: str
    series: tuple[str, ...]
    groups: tuple[tuple[str, tuple[float | None, ...]], ...]


@dataclass(frozen=True)
class Exhibit:
    """A figure or a table, either reproduced from a paper or our own.

    Attributes:
        name: number of the exhibit in the paper, such as ``Figure 11``, or a name of our own.
        title: subject of the exhibit.
        basis: whether our numbers are "predicted", "measured", "counted" or "not repeated".
        studies: names of the studies whose records the exhibit shows.
        setting: the predicted, measured or counted quantity, and the device.
        body: returns the exhibit in Markdown, from the records; None if it is not reproduced.
        remark: why our numbers differ from the paper's, or why the exhibit is not reproduced.
        plot: returns the bar chart of the records; None if the exhibit has no chart.
    """

    name: str
    title: str
    basis: Basis
    studies: tuple[str, ...] = ()
    setting: str = ""
    body: Figures | None = None
    remark: str = ""
    plot: Callable[[Records], Plot] | None = None


def ratio(value: float) -> str:
    """Return a ratio as text with two decimals."""
    return f"{value:.2f}"


def ms(value: float) -> str:
    """Return milliseconds as text, without unit.

    The text has three decimals below 10, two below 100, else one.
    """
    return f"{value:.3f}" if value < 10 else f"{value:.2f}" if value < 100 else f"{value:.1f}"


def percent(value: float) -> str:
    """Return a fraction as text in percent, with one decimal, such as "12.5%" for 0.125."""
    return f"{value:.1%}"
