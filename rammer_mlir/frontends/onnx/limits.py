"""Bounds on what a model may become, far beyond what real models need.

Some hundred bytes can stand for a graph that no machine holds: functions that call each other
twice, loops inside of loops, a recurrent layer over a million steps. Such a model is refused in one
line, instead of being expanded until memory or patience ends.
"""

from __future__ import annotations

from rammer_mlir.errors import UnsupportedError

MOST_NODES = 100_000
"""Of a graph in which functions, loops or recurrent layers have been expanded.

Compiling so many takes some ten minutes, and the longest programs of the literature have a tenth.
"""

MOST_NESTED_CALLS = 100
"""Functions that call each other: each level makes the names of all nodes beneath it longer."""

MOST_DIMENSIONS = 64
"""Of one tensor: NumPy's arrays have no more."""

MOST_ELEMENTS = 2**31 - 1
"""Of one tensor: device code counts elements in 32 bits."""

RANK_BY_COUNTING = 4096
"""Longest axis that a compiled TopK orders by comparing all elements with each other."""

MOST_SEARCHED = 256
"""Most elements that a compiled TopK searches one by one along longer axes."""

MOST_FOLDED = 1 << 26
"""Elements of a constant that is computed at compile time: half a gigabyte of shapes or indices."""


def require_few_nodes(what: str, count: int) -> None:
    """Refuse an expansion that would give the graph too many nodes.

    Raises:
        UnsupportedError: naming what is expanded.
    """
    if count > MOST_NODES:
        raise UnsupportedError(
            f"{what}: expected at most {MOST_NODES} nodes once functions, loops and recurrent "
            f"layers are expanded, found {count}; make it shorter"
        )
