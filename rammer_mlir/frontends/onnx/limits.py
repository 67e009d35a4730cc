"""Limits the size of a model after its expansion; no real model reaches the limits.

A malicious model of a few hundred bytes can expand to a graph that exceeds all memory: by a chain
of functions that each call the next function twice, by nested loops, or by a recurrent layer over a
million time steps. The compiler refuses such a model, by a one-line error, before the expansion.
"""

from __future__ import annotations

from rammer_mlir.errors import UnsupportedError

MOST_NODES = 100_000
"""Largest number of nodes of a graph after expansion of functions, loops and recurrent layers.

Compiling so many nodes takes about ten minutes; the longest programs in the literature have a tenth
of this number.
"""

MOST_NESTED_CALLS = 100
"""Largest depth of nested function calls; each call makes names of inner nodes longer."""

MOST_ELEMENTS = 2**31 - 1
"""Largest number of elements of a tensor; device code counts elements in 32 bits."""

RANK_BY_COUNTING = 4096
"""Largest extent of an axis that a compiled TopK ranks by comparing all pairs of elements."""

MOST_SELECTED = 1024
"""Largest number of elements that a compiled TopK selects along longer axes.

The selected elements are ranked by comparing all pairs of them.
"""

MOST_FOLDED = 1 << 26
"""Largest number of elements of a folded constant: half a gigabyte of shapes or indices."""


def require_few_nodes(what: str, count: int) -> None:
    """Raise an error if an expansion needs more than MOST_NODES nodes.

    ``what`` is the label of the expanded node, and ``count`` the number of nodes after the
    expansion.

    Raises:
        UnsupportedError: with the label of the expanded node.
    """
    if count > MOST_NODES:
        raise UnsupportedError(
            f"{what}: expected at most {MOST_NODES} nodes once functions, loops and recurrent "
            f"layers are expanded, found {count}; make it shorter"
        )
