"""Groups of loops for tests of the design search (Dali): the paper's examples and random groups."""

from __future__ import annotations

import random

from rammer_mlir.scheduling.designs.coupling import couple
from rammer_mlir.scheduling.designs.decisions import decide
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
from rammer_mlir.scheduling.designs.space import DesignSpace


def spaces_of(problem: Problem, machine: Machine, *, tiles: bool = False) -> list[DesignSpace]:
    """Return a search space for each combination of decisions about the values of ``problem``.

    Loops that must have equal choices are coupled. With ``tiles``, loops may be tiled.
    """
    return [DesignSpace(d, machine, couple(d.problem), tiles) for d in decide(problem)]


BATCH, TIME, VOCABULARY = 32, 100, 32_000

TITAN_X = Machine(
    units=28, lanes=1024, step_seconds=1.0, meeting_seconds=40.0, start_seconds=2000.0
)
"""The paper's GPU: units are multiprocessors, lanes are threads of a block, times are cycles."""

CHEAP, DEAR = 2, 20
"""Number of operations of an addition or comparison, and of an exponential or logarithm."""


def softmax_cross_entropy() -> Problem:
    """Return the example of Dali, section 2.4: softmax cross-entropy, 4 assignments with 14 loops.

    A reduced dimension is kept with size 1. The last assignment gathers the result by labels.
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
    """Return a group with the numbers of loops of Dali's Transformer kernel: 36 in 12 assignments.

    The paper does not give the loops' sizes, so they are invented. Seven loops of equal size may be
    distributed over rTasks. Each assignment has a reduction, and these 12 reductions have equal
    sizes. These 19 loops are coupled along a chain of values. The other 17 loops are reductions of
    different sizes.
    """
    spread, reduced, own = range(7), range(7, 19), range(19, 36)
    extents = [8] * 7 + [16] * 12 + list(range(100, 117))
    kinds = [LoopKind.ASSIGNMENT if n in spread else LoopKind.REDUCTION for n in range(36)]
    pairs = zip(extents, kinds, strict=True)
    loops = tuple(Loop(f"l{n}", *pair) for n, pair in enumerate(pairs))
    owned = [(*spread[n : n + 1], reduced[n], *own[n::12]) for n in range(12)]
    assignments = (
        Assignment(f"a{n}", mine, 1, is_returned=n == 11) for n, mine in enumerate(owned)
    )
    shared = [(n, reduced[n]) if n < 6 else (reduced[n],) for n in range(11)]
    values = (
        Value(f"v{n}", n, dims, tuple(extents[loop] for loop in dims))
        for n, dims in enumerate(shared)
    )
    reads = (Read(n, n + 1, tuple(loop + 1 for loop in dims)) for n, dims in enumerate(shared))
    return Problem(loops, tuple(assignments), tuple(values), tuple(reads))


def random_machine(rng: random.Random) -> Machine:
    """Return a machine of at most 6 units and 8 lanes, with random costs."""
    bandwidth = rng.choice([0.5, 4.0, float("inf")])
    return Machine(
        units=rng.randint(1, 6),
        lanes=rng.choice([1, 2, 4, 8]),
        step_seconds=1.0,
        meeting_seconds=rng.choice([0.0, 1.0, 7.0]),
        start_seconds=rng.choice([0.0, 5.0, 50.0]),
        task_seconds=rng.choice([0.0, 2.0]),
        bytes_per_second=bandwidth,
        total_bytes_per_second=bandwidth * rng.choice([1, 3]),
        is_vector=rng.random() < 0.3,
    )


def random_problem(rng: random.Random, num_loops: int, *, decide: bool = False) -> Problem:
    """Return a random group of ``num_loops`` loops; assignments read values of earlier assignments.

    With ``decide``, each value may be stored, recomputed, or end a fused group; otherwise it is
    stored.
    """
    owned: list[tuple[int, ...]] = []
    total = 0
    while total < num_loops:
        size = min(rng.randint(1, 3), num_loops - total)
        owned.append(tuple(range(total, total + size)))
        total += size
    loops = tuple(_random_loop(rng, n) for n in range(total))
    dims = [tuple(n for n in mine if loops[n].kind is LoopKind.ASSIGNMENT) for mine in owned]
    decisions = tuple(Decision) if decide else (Decision.STORED,)
    values = tuple(
        Value(f"v{n}", n, mine, tuple(loops[loop].extent for loop in mine), 4, decisions)
        for n, mine in enumerate(dims)
    )
    reads = [
        Read(value, reader, tuple(_index(rng, loops, loop, owned[reader]) for loop in dims[value]))
        for reader in range(len(owned))
        for value in range(reader)
        if rng.random() < 0.5
    ]
    assignments = tuple(
        Assignment(
            f"a{n}", mine, rng.randint(1, 9), _random_traffic(rng, mine), n == len(owned) - 1
        )
        for n, mine in enumerate(owned)
    )
    return Problem(loops, assignments, values, tuple(reads))


def _random_loop(rng: random.Random, number: int) -> Loop:
    kind = LoopKind.REDUCTION if rng.random() < 0.25 else LoopKind.ASSIGNMENT
    return Loop(f"l{number}", rng.choice([1, 3, 3, 8, 8, 20]), kind, rng.random() < 0.7)


def _index(
    rng: random.Random, loops: tuple[Loop, ...], produced: int, reading: tuple[int, ...]
) -> int | None:
    """Return the loop by which a reader indexes the dimension that the loop ``produced`` writes.

    It is mostly a loop of equal size among ``reading``, the reader's loops; seldom any of them, or
    None if no loop indexes the dimension. Loops are indices into ``loops``.
    """
    equal = [loop for loop in reading if loops[loop].extent == loops[produced].extent]
    if equal and rng.random() < 0.8:
        return rng.choice(equal)
    return rng.choice([None, *reading])


def _random_traffic(rng: random.Random, loops: tuple[int, ...]) -> tuple[Traffic, ...]:
    """Return random accesses of up to two tensors, whose indices are weighted sums of loops.

    ``loops`` are the loops that may index them. Sums of two loops are windows, as of a convolution.
    """
    return tuple(
        Traffic(
            tuple(
                Span(tuple((loop, rng.randint(1, 3)) for loop in rng.sample(loops, k=number)))
                for number in rng.choices(range(len(loops) + 1), k=rng.randint(0, 2))
            ),
            rng.choice([1, 4]),
        )
        for _ in range(rng.randint(0, 2))
    )
