"""The kinds of readings, which patterns refer to."""

from __future__ import annotations

import difflib

from rammer_mlir.errors import OptionError
from rammer_mlir.passes.regions.expressions import FUNCTIONS
from rammer_mlir.passes.regions.named_expressions import NAMES

_POOLS = ("max", "min", "sum", "average")
_REDUCTIONS = ("sum", "mean", "max", "min", "prod", "sum_square", "l1")

KINDS = frozenset(
    {
        *(f"{depthwise}conv{rank}d" for depthwise in ("", "depthwise_") for rank in (1, 2, 3)),
        *("matmul", "batch_matmul", "softmax"),
        *(f"{name}_pool" for name in _POOLS),
        *(f"reduce_{name}" for name in _REDUCTIONS),
        *("transpose", "reshape", "broadcast", "slice", "concat", "pad", "fill"),
        *("elementwise", *FUNCTIONS, *NAMES),
    }
)
"""All kinds of readings except ``cast_TYPE``."""


def check_kind(kind: str) -> None:
    """Check that a kind of reading exists.

    Raises:
        OptionError: if it does not; the message names the most similar kind, if any is similar.
    """
    if kind in KINDS or kind.startswith("cast_"):
        return
    near = difflib.get_close_matches(kind, KINDS, n=1)
    advice = f"did you mean '{near[0]}'?" if near else "docs/ir.md lists them"
    raise OptionError(f"pattern: expected the kind of a reading, found '{kind}'; {advice}")
