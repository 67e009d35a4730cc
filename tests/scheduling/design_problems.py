"""Groups to search designs of: the paper's, and random ones."""

from __future__ import annotations

import random
from itertools import pairwise

from rammer_mlir.scheduling.designs.machine import Machine
from rammer_mlir.scheduling.designs.problem import (
    Assignment,
    Decision,
    Loop,
    LoopKind,
    Problem,
    Read,
    Span,
    Traffic,
    Value,
)

BATCH, TIME, VOCABULARY = 32, 100, 32_000

TITAN_X = Machine(
    units=28, lanes=1024, step_seconds=1.0, meeting_seconds=40.0, start_seconds=2000.0
)
"""The paper's GPU, in cycles: multiprocessors, and threads of a block."""

CHEAP, DEAR = 2, 20
"""Operations of an addition or comparison, and of an exponential or logarithm."""


def softmax_cross_entropy() -> Problem:
    """Return the paper's example (section 2.4): four assignments with 14 loops.

    Reduced dimensions are kept, with one element, and the result is gathered by labels.
    """
    loops = {
        "max": [("kept", 1), ("reduce", VOCABULARY)],
        "exp": [("vocabulary", VOCABULARY)],
        "sum": [("kept", 1), ("reduce", VOCABULARY)],
        "out": [("gather", 1)],
    }
    kinds = {"reduce": LoopKind.REDUCTION, "gather": LoopKind.GATHER}
    names = [
        (stage, name, extent)
        for stage, own in loops.items()
        for name, extent in [("batch", BATCH), ("time", TIME), *own]
    ]
    number = {f"{stage}.{name}": n for n, (stage, name, _) in enumerate(names)}
    work = {"max": CHEAP, "exp": DEAR, "sum": CHEAP, "out": DEAR}

    def dims(stage: str, last: str | None) -> tuple[int | None, ...]:
        rows = (number[f"{stage}.batch"], number[f"{stage}.time"])
        return (*rows, None if last is None else number[f"{stage}.{last}"])

    return Problem(
        tuple(
            Loop(f"{stage}.{name}", extent, kinds.get(name, LoopKind.ASSIGNMENT))
            for stage, name, extent in names
        ),
        tuple(
            Assignment(
                stage,
                tuple(n for n, (s, _, _) in enumerate(names) if s == stage),
                work[stage],
                is_returned=stage == "out",
            )
            for stage in loops
        ),
        (
            Value("max", 0, dims("max", "kept"), (BATCH, TIME, 1)),
            Value("exp", 1, dims("exp", "vocabulary"), (BATCH, TIME, VOCABULARY)),
            Value("sum", 2, dims("sum", "kept"), (BATCH, TIME, 1)),
        ),
        (
            Read(0, 1, dims("exp", None)),
            Read(1, 2, dims("sum", "reduce")),
            Read(1, 3, dims("out", None)),
            Read(2, 3, dims("out", None)),
        ),
    )


def transformer_kernel() -> Problem:
    """Return a group with the counts of the paper's Transformer kernel: 36 loops, 12 assignments.

    Its sizes are not given. Here seven assignments have a loop that may be spread, coupled along a
    chain, and 12 of the other 29 loops are coupled in such chains, too.
    """
    fixed = [LoopKind.REDUCTION] * 29
    extents = [8] * 7 + [*([16] * 12), *range(100, 117)]
    kinds = [LoopKind.ASSIGNMENT] * 7 + fixed
    loops = tuple(
        Loop(f"l{n}", extent, kind)
        for n, (extent, kind) in enumerate(zip(extents, kinds, strict=True))
    )
    rest = iter(range(19, 36))
    owned = [[n, n + 7, next(rest), *([next(rest)] if n < 5 else [])] for n in range(7)]
    owned += [[n + 14, next(rest)] for n in range(5)]
    assignments = tuple(
        Assignment(f"a{n}", tuple(mine), 1, is_returned=n == 11) for n, mine in enumerate(owned)
    )
    values: list[Value] = []
    reads: list[Read] = []
    for before, after in pairwise(range(12)):
        shared = (0, 1) if after < 7 else ((1,) if before < 7 else (0,))
        ends = [owned[before][i] for i in shared], [owned[after][0 if after > 6 else i] for i in shared]
        values.append(Value(f"v{before}", before, tuple(ends[0]), tuple(extents[i] for i in ends[0])))
        reads.append(Read(before, after, tuple(ends[1])))
    return Problem(loops, assignments, tuple(values), tuple(reads))
