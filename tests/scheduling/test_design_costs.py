"""Tests that the costs of designs equal costs calculated by hand.

A decision about each value divides a problem into fused groups.
"""

from __future__ import annotations

from dataclasses import replace

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
from tests.scheduling.design_problems import softmax_cross_entropy, spaces_of

ROWS = (Loop("rows", 10), Loop("columns", 64), Loop("sum", 64, LoopKind.REDUCTION))
"""Loops that write a value of 10 x 64 elements, and a loop that sums a row of the value."""


def sums_of_rows(*decisions: Decision) -> Problem:
    """Return a fused group: an element-wise assignment, and the sum of each row of its result.

    ``decisions`` are the allowed ways in which the sums get the result; by default ``STORED`` only.
    """
    loops = (ROWS[0], ROWS[1], ROWS[0], ROWS[2])
    return Problem(
        loops,
        (
            Assignment("map", (0, 1), 3, (Traffic((Span(((0, 1),)), Span(((1, 1),))), 4),)),
            Assignment("sum", (2, 3), 1, is_returned=True),
        ),
        (Value("map", 0, (0, 1), (10, 64), 4, decisions or (Decision.STORED,)),),
        (Read(0, 1, (2, 3)),),
    )


MACHINE = Machine(
    units=4, lanes=16, step_seconds=1.0, meeting_seconds=5.0, start_seconds=100.0,
    task_seconds=10.0, bytes_per_second=8.0, total_bytes_per_second=16.0,
)  # fmt: skip


def cost_of(space: DesignSpace, rows: str, columns: str) -> float:
    """Return the cost of the design that has the choice ``rows`` for the loops over rows.

    It has the choice ``columns`` for the loops over columns. Choices are given by their names.
    """
    wanted = {10: rows, 64: columns}
    names = [[choice.name for choice in options] for options in space.choices]
    pairs = zip(space.variables, names, strict=True)
    return space.bound(tuple(found.index(wanted[v.extent]) for v, found in pairs))


def test_costs_by_hand() -> None:
    (space,) = spaces_of(sums_of_rows(), MACHINE)
    # Rows in three waves of four: 4 steps of 3 operations against 256 bytes at a fourth of 16,
    # then 4 steps and a meeting.
    assert cost_of(space, "rTask", "lanes") == 100 + 3 * 10 + 3 * 64 + 3 * (4 + 5)
    # A single rTask: 40 steps of 3 operations against 2560 bytes at 8.
    assert cost_of(space, "lanes", "serial") == 100 + 10 + 320 + 64
    # Each meeting has all 16 lanes: one for each row.
    assert cost_of(space, "serial", "lanes") == 100 + 10 + 320 + 10 * (4 + 5)
    assert cost_of(space, "lanes", "lanes") == 100 + 10 + 320 + 40 + 10 * 5


def test_vectors_are_of_contiguous_loops() -> None:
    strided = replace(ROWS[0], contiguous=False)
    problem = replace(sums_of_rows(), loops=(strided, ROWS[1], strided, ROWS[2]))
    vector = replace(MACHINE, is_vector=True)
    (space,) = spaces_of(problem, vector)
    assert cost_of(space, "vector", "serial") == cost_of(space, "serial", "serial")
    assert cost_of(space, "serial", "vector") < cost_of(space, "serial", "serial")


def test_a_window_is_read_with_its_border() -> None:
    """Windows at rows ``2 i + k``, with ``k`` below 3, share one row with their neighbors.

    A single rTask reads 21 rows; an rTask for each ``i`` reads 3 rows, so that the shared rows are
    read twice.
    """
    loops = (Loop("i", 10), Loop("k", 3, LoopKind.REDUCTION))
    rows = Traffic((Span(((0, 2), (1, 1))),), 4)
    problem = Problem(loops, (Assignment("window", (0, 1), 1, (rows,)),))
    slow = replace(MACHINE, bytes_per_second=1.0, total_bytes_per_second=4.0)
    (space,) = spaces_of(problem, slow)
    serial = [[choice.name for choice in options].index("serial") for options in space.choices]
    spread = [choice.name for choice in space.choices[0]].index("rTask")
    assert space.bound(tuple(serial)) == 100 + 10 + 21 * 4
    assert space.bound((spread, serial[1])) == 100 + 3 * 10 + 3 * 3 * 4


def test_a_recomputed_value_is_work_of_its_reader() -> None:
    """A recomputed value adds its operations to its reader, and has no loops of its own.

    A value that ends a fused group is written to memory, and its reader reads it from there.
    """
    stored, recomputed, ended = decide(sums_of_rows(*Decision))
    assert stored.problem == sums_of_rows(*Decision)
    gone, reader = recomputed.problem.assignments
    assert (gone.loops, gone.operations, recomputed.problem.reads) == ((), 0, ())
    assert (reader.operations, reader.loops) == (1 + 3, (2, 3))
    assert reader.traffic == (Traffic((Span(((2, 1),)), Span(((3, 1),))), 4),)
    assert (stored.num_units, recomputed.num_units, ended.num_units) == (1, 1, 2)
    first, second = ended.problem.assignments
    assert ended.problem.reads == ()
    assert first.traffic[-1] == Traffic((Span(((0, 1),)), Span(((1, 1),))), 4, is_write=True)
    assert second.traffic == (Traffic((Span(((2, 1),)), Span(((3, 1),))), 4),)


def broadcast_sums(*decisions: Decision) -> Problem:
    """Return a group that divides rows by their sums, which are broadcast over the columns."""
    loops = (ROWS[0], ROWS[2], ROWS[0], ROWS[1])
    return Problem(
        loops,
        (Assignment("sum", (0, 1), 2), Assignment("divide", (2, 3), 1, is_returned=True)),
        (Value("sum", 0, (0,), (10,), 4, decisions),),
        (Read(0, 1, (2,)),),
    )


def test_loops_beneath_a_broadcast_are_spread_if_the_value_is_recomputed_or_ends_the_unit() -> None:
    stored, recomputed, ended = decide(broadcast_sums(*Decision))
    spread = [
        {problem.loops[n].name for c in couple(problem) if c.may_spread for n in c.loops}
        for problem in (stored.problem, recomputed.problem, ended.problem)
    ]
    assert spread == [{"rows"}, {"rows", "columns"}, {"rows", "columns"}]
    # A sum of 64 elements of two operations each, in every point.
    assert recomputed.problem.assignments[1].operations == 1 + 2 * 64


def test_a_returned_value_is_computed_all_the_same() -> None:
    problem = broadcast_sums(*Decision)
    first, second = problem.assignments
    returned = replace(problem, assignments=(replace(first, is_returned=True), second))
    _, recomputed, _ = decide(returned)
    assert recomputed.problem.assignments[0].loops == (0, 1)


def test_units_that_would_wait_for_each_other_are_no_design() -> None:
    """Decisions that make two fused groups depend on each other are refused.

    If the sums end a group, then the exponentials, which are read after the sums, must end the
    group too.
    """
    problem = softmax_cross_entropy()
    decisions = (Decision.STORED, Decision.ENDED)
    values = tuple(replace(value, decisions=decisions) for value in problem.values)
    possible = {found.decisions[1:] for found in decide(replace(problem, values=values))}
    stored, ended = decisions
    assert possible == {(stored, stored), (ended, stored), (ended, ended)}
