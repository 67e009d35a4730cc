"""Exhibits: the figures and tables of a paper, laid out from the records of studies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from rammer_mlir.benchmarks.papers.study import Records

Basis = Literal["predicted", "measured", "counted", "not repeated"]
"""How our numbers come about; ``not repeated`` needs hardware or software that is not to be had."""

Figures = Callable[[Records], str]
"""Lays out records in Markdown."""


@dataclass(frozen=True)
class Plot:
    """Groups of bars.

    Attributes:
        name: of the file, without its ending.
        unit: of the bars.
        series: names of the bars of a group.
        groups: for each group its name and the heights of its bars; None where there is no bar.
    """

    name: str
    unit: str
    series: tuple[str, ...]
    groups: tuple[tuple[str, tuple[float | None, ...]], ...]


@dataclass(frozen=True)
class Exhibit:
    """A figure or a table of a paper, made again.

    Attributes:
        name: its number in the paper, such as ``Figure 11``.
        title: its subject.
        basis: how our numbers come about.
        studies: the names of the studies whose records it lays out.
        setting: what was predicted, measured or counted, for whom.
        body: lays out the records.
        remark: why our numbers differ from the paper's.
        plot: the same as a plot; None without one.
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
    """Return a ratio for a table."""
    return f"{value:.2f}"


def ms(value: float) -> str:
    """Return milliseconds for a table, with three digits that matter."""
    return f"{value:.3f}" if value < 10 else f"{value:.2f}" if value < 100 else f"{value:.1f}"


def percent(value: float) -> str:
    """Return a share for a table."""
    return f"{value:.1%}"
