"""Define exhibits: figures and tables, of a paper or our own, made from the records of studies."""

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
        name: name of the file, without extension.
        unit: unit of the bars.
        series: names of the bars of a group.
        groups: for each group its name and the heights of its bars; None for a missing bar.
    """

    name: str
    unit: str
    series: tuple[str, ...]
    groups: tuple[tuple[str, tuple[float | None, ...]], ...]


@dataclass(frozen=True)
class Exhibit:
    """A figure or a table, either reproduced from a paper or our own.

    Attributes:
        name: its number in the paper, such as ``Figure 11``, or a name of our own.
        title: its subject.
        basis: whether our numbers are "predicted", "measured", "counted" or "not repeated".
        studies: the names of the studies whose records it shows.
        setting: the predicted, measured or counted quantity, and the device.
        body: returns the table of the records; None if nothing is reproduced.
        remark: why our numbers differ from the paper's.
        plot: returns the records as a bar chart; None without a chart.
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
    """Return a ratio as text for a table, with two decimals."""
    return f"{value:.2f}"


def ms(value: float) -> str:
    """Return milliseconds as text for a table, with three significant digits."""
    return f"{value:.3f}" if value < 10 else f"{value:.2f}" if value < 100 else f"{value:.1f}"


def percent(value: float) -> str:
    """Return a fraction as text for a table, in percent."""
    return f"{value:.1%}"
