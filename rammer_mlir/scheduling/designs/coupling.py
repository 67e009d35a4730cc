"""Finds loops that may be distributed over vEUs, and loops mapped alike (Dali, section 2.3).

A loop is not distributed if a reader in the fused group would then need an element that another
rTask computes. This excludes:

- reduction loops and loops over gathered elements;
- a loop that indexes a dimension of a value, if the other side of the read (the value's producer or
  its reader) has no loop of equal extent for this dimension;
- loops of a reader that do not index the value, as in a broadcast.

Two loops are coupled if they have equal extents and index the same dimension of a value, one in the
value's producer, the other in a reader. Of two coupled loops, both or neither may be distributed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from rammer_mlir.scheduling.designs.problem import LoopKind, Problem, Read


@dataclass(frozen=True)
class LoopClass:
    """Loops of a fused group that are all mapped to vEUs and lanes in the same way.

    Attributes:
        loops: the loops' numbers in ``Problem.loops``.
        extent: the number of iterations of each loop.
        may_spread: whether the loops may be distributed over vEUs.
    """

    loops: tuple[int, ...]
    extent: int
    may_spread: bool


def couple(problem: Problem) -> tuple[LoopClass, ...]:
    """Return the classes of coupled loops of a fused group, in order of their first loops.

    Two loops are coupled if they have equal extents and index the same dimension of a value, one in
    the value's producer, the other in a reader.
    """
    parent = {loop: loop for loop in problem.used_loops}

    def root(loop: int) -> int:
        while parent[loop] != loop:
            parent[loop] = loop = parent[parent[loop]]
        return loop

    for a, b in problem.edges:
        if problem.loops[a].extent == problem.loops[b].extent:
            first, second = sorted((root(a), root(b)))
            parent[second] = first
    members: dict[int, list[int]] = {}
    for loop in problem.used_loops:
        members.setdefault(root(loop), []).append(loop)
    fixed = set(_fixed(problem))
    return tuple(_class(problem, loops, fixed) for loops in members.values())


def uncoupled(problem: Problem) -> tuple[LoopClass, ...]:
    """Return a separate class for each loop of a fused group, as if no loops were coupled.

    A loop may be distributed over vEUs if the class with this loop in ``couple`` may be.
    """
    return tuple(
        LoopClass((loop,), found.extent, found.may_spread)
        for found in couple(problem)
        for loop in found.loops
    )


def _class(problem: Problem, loops: list[int], fixed: set[int]) -> LoopClass:
    each = Counter(problem.assignment_of[loop] for loop in loops)
    # Tiles along two loops of an assignment with one choice would cover only the diagonal.
    may_spread = fixed.isdisjoint(loops) and max(each.values()) == 1
    return LoopClass(tuple(loops), problem.loops[loops[0]].extent, may_spread)


def _fixed(problem: Problem) -> Iterator[int]:
    """Yield the loops that may not be distributed over vEUs, whatever loops they are coupled with.

    They are the reduction loops, the loops over gathered elements, and the loops that a read of a
    value excludes (``_fixed_by``).
    """
    for loop in problem.used_loops:
        if problem.loops[loop].kind is not LoopKind.ASSIGNMENT:
            yield loop
    for read in problem.reads:
        yield from _fixed_by(problem, read)


def _fixed_by(problem: Problem, read: Read) -> Iterator[int]:
    """Yield the loops that ``read`` prevents from being distributed over vEUs.

    ``read`` connects a value's producer with a reader. A dimension of the value may be indexed by a
    loop of the producer and by a loop of the reader. If only one of these two loops exists, yield
    this loop. If both exist but have different extents, yield both. Also yield the reader's loops
    that do not index the value, as in a broadcast.
    """
    for produced, reading in zip(problem.values[read.value].dims, read.dims, strict=True):
        ends = [loop for loop in (produced, reading) if loop is not None]
        extents = {problem.loops[loop].extent for loop in ends}
        if len(ends) < 2 or len(extents) > 1:
            yield from ends
    indexing = set(read.dims)
    yield from (loop for loop in problem.assignments[read.reader].loops if loop not in indexing)
