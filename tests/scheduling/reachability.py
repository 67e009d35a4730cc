"""The happens-before order of a program, as the transitive closure of its orders and waits."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.scheduling.execution_order import execution_order
from rammer_mlir.scheduling.graph import Int64Array
from rammer_mlir.scheduling.program import Barrier, Item, Plan, RProgram

Relation = NDArray[np.bool_]


def first_steps(program: RProgram) -> Int64Array:
    """Return the index of the first rTask of each vEU, followed by the number of all rTasks.

    The rTasks are numbered vEU by vEU.
    """
    counts = [
        sum(item.count for item in items if not isinstance(item, Barrier)) for items in program.veus
    ]
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64)


def happens_before(program: RProgram) -> Relation:
    """Return a matrix of bools: whether rTask ``a`` ends before rTask ``b`` starts, at ``[a, b]``.

    rTasks are numbered vEU by vEU. The closure is computed by Floyd and Warshall's algorithm.
    """
    base = first_steps(program)
    before = np.zeros((int(base[-1]), int(base[-1])), dtype=bool)
    for veu, items in enumerate(program.veus):
        at = int(base[veu])
        for item in items:
            if isinstance(item, Barrier):
                for other, order in item.waits:
                    if at < base[veu + 1]:
                        before[base[other] + order, at] = True
            else:
                at += item.count
        for step in range(int(base[veu]) + 1, int(base[veu + 1])):
            before[step - 1, step] = True
    for middle in range(len(before)):
        before |= before[:, middle][:, None] & before[middle][None, :]
    return before


def without_one_wait(program: RProgram) -> Iterator[RProgram]:
    """Yield all copies of a program that lack exactly one of the program's waits."""
    for veu, items in enumerate(program.veus):
        for at, item in enumerate(items):
            if isinstance(item, Barrier):
                for drop in range(len(item.waits)):
                    fewer = Barrier(item.waits[:drop] + item.waits[drop + 1 :])
                    yield _with_items(program, veu, (*items[:at], fewer, *items[at + 1 :]))


def with_more_waits(plan: Plan, rng: random.Random, count: int) -> Plan:
    """Return a plan with additional random waits that cannot deadlock; most waits are redundant.

    Before each item, waits for ``count`` random vEUs are drawn. Each wait is for an rTask that is
    complete at this point of one order of execution.
    """
    return replace(plan, programs=tuple(_more(program, rng, count) for program in plan.programs))


def _more(program: RProgram, rng: random.Random, count: int) -> RProgram:
    done = [0] * program.num_veus
    veus: list[list[Item]] = [[] for _ in range(program.num_veus)]
    for veu, item in execution_order(program):
        for other in rng.choices(range(program.num_veus), k=count):
            if other != veu and done[other]:
                veus[veu].append(Barrier(((other, rng.randrange(done[other])),)))
        veus[veu].append(item)
        if not isinstance(item, Barrier):
            done[veu] += item.count
    return RProgram(program.num_veus, tuple(tuple(items) for items in veus))


def _with_items(program: RProgram, veu: int, items: tuple[Item, ...]) -> RProgram:
    return replace(program, veus=(*program.veus[:veu], items, *program.veus[veu + 1 :]))
