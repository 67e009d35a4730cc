"""Define the fusion settings that are compared, as compiler options."""

from __future__ import annotations

from rammer_mlir.benchmarks.fusion.paper import BEST_F_MAX
from rammer_mlir.options import Options

MOST_INPUTS = 8

NO_FUSION, NO_LIMIT, DEFAULT, COST = "no fusion", "no limit", "default", "cost"


def f_max(inputs: int) -> str:
    """Return the name of the setting that limits an rOperator to at most ``inputs`` inputs.

    For example, ``f_max(3)`` is "F = 3".
    """
    return f"F = {inputs}"


PAPERS = f_max(BEST_F_MAX)
RECOMPUTED = f"{PAPERS}, no temporaries"

SETTINGS: dict[str, Options] = {
    NO_FUSION: {"boundary": "none"},
    **{f_max(f): {"boundary": f"inputs={f}"} for f in range(1, MOST_INPUTS + 1)},
    NO_LIMIT: {"boundary": "inputs=0"},
    RECOMPUTED: {"boundary": f"inputs={BEST_F_MAX}", "temporaries": False},
    DEFAULT: {},
    COST: {"boundary": "cost"},
}
"""Options of ``rammer_mlir.compile`` of each fusion setting, by the setting's name in tables."""
