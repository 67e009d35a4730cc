"""Random small changes of a plan, some of which make it wrong, to test the verifier."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from rammer_mlir.scheduling.program import Barrier, Item, Plan, RProgram, Run

Program = list[list[Item]]
"""The items of each vEU."""

Mutation = Callable[[random.Random, Program], None]


def mutants(plan: Plan, seed: int, rounds: int) -> Iterator[tuple[str, Plan]]:
    """Yield changed plans, each with the name of the mutation that changed it.

    Each of ``rounds`` rounds applies every mutation once to the original plan.
    """
    rng = random.Random(seed)
    for _ in range(rounds):
        for name, mutation in MUTATIONS.items():
            number = rng.randrange(len(plan.programs))
            program = [list(items) for items in plan.programs[number].veus]
            mutation(rng, program)
            changed = replace_program(plan, number, program)
            if changed is not None and changed != plan:
                yield name, changed


def replace_program(plan: Plan, number: int, program: Program) -> Plan | None:
    """Return the plan with ``program`` as rProgram ``number``; None if ``program`` is malformed.

    A program is malformed if a vEU waits for itself, an index is negative, or a run is empty: such
    programs are impossible rather than wrong.
    """
    for veu, items in enumerate(program):
        for item in items:
            if isinstance(item, Barrier):
                if any(other == veu or order < 0 for other, order in item.waits):
                    return None
            elif item.count < 1 or item.first < 0:
                return None
    programs = list(plan.programs)
    programs[number] = RProgram(len(program), tuple(tuple(items) for items in program))
    return replace(plan, programs=tuple(programs))


def _place(
    rng: random.Random, program: Program, kind: type[Run] | type[Barrier] | None = None
) -> tuple[list[Item], int] | None:
    """Choose a random item of a program: a run or a barrier, or only of type ``kind``.

    Returns the list of the item's vEU and the item's index there; None if there is no such item.
    """
    places = [
        (items, at)
        for items in program
        for at, item in enumerate(items)
        if kind is None or isinstance(item, kind)
    ]
    return rng.choice(places) if places else None


_Kind = TypeVar("_Kind", Run, Barrier)


def _item(
    rng: random.Random, program: Program, kind: type[_Kind]
) -> tuple[list[Item], int, _Kind] | None:
    """Choose a random item of type ``kind``.

    Returns the list of its vEU, its index there, and the item; None if there is no such item.
    """
    place = _place(rng, program, kind)
    if place is None:
        return None
    item = place[0][place[1]]
    assert isinstance(item, kind)
    return (*place, item)


def _insert(rng: random.Random, items: list[Item], item: Item) -> None:
    items.insert(rng.randint(0, len(items)), item)


def drop_run(rng: random.Random, program: Program) -> None:
    """Remove a run."""
    if place := _item(rng, program, Run):
        del place[0][place[1]]


def shrink_run(rng: random.Random, program: Program) -> None:
    """Remove the first or the last rTask of a run."""
    if place := _item(rng, program, Run):
        items, at, run = place
        items[at] = Run(run.operator, run.first + rng.randint(0, 1), run.count - 1)


def shift_run(rng: random.Random, program: Program) -> None:
    """Increase or decrease the index of the first rTask of a run by one."""
    if place := _item(rng, program, Run):
        items, at, run = place
        items[at] = replace(run, first=run.first + rng.choice((-1, 1)))


def duplicate_run(rng: random.Random, program: Program) -> None:
    """Execute a run a second time, at a random place."""
    if place := _item(rng, program, Run):
        _insert(rng, rng.choice(program), place[2])


def exchange_operators(rng: random.Random, program: Program) -> None:
    """Exchange the places of two runs."""
    first, second = _item(rng, program, Run), _item(rng, program, Run)
    if first and second:
        first[0][first[1]], second[0][second[1]] = second[2], first[2]


def swap_neighbors(rng: random.Random, program: Program) -> None:
    """Exchange two adjacent items of a vEU."""
    place = _place(rng, program)
    if place and place[1] + 1 < len(place[0]):
        items, at = place
        items[at : at + 2] = items[at : at + 2][::-1]


def move_on_veu(rng: random.Random, program: Program) -> None:
    """Move an item to a random place on its vEU."""
    if place := _place(rng, program):
        _insert(rng, place[0], place[0].pop(place[1]))


def move_to_other_veu(rng: random.Random, program: Program) -> None:
    """Move an item to a random place on a random vEU."""
    if place := _place(rng, program):
        _insert(rng, rng.choice(program), place[0].pop(place[1]))


def split_run(rng: random.Random, program: Program) -> None:
    """Split a run into two runs, which is harmless."""
    if place := _item(rng, program, Run):
        items, at, run = place
        cut = rng.randint(1, max(1, run.count - 1))
        items[at : at + 1] = [
            replace(run, count=cut),
            Run(run.operator, run.first + cut, run.count - cut),
        ]


def split_and_move(rng: random.Random, program: Program) -> None:
    """Split a run, and move its second part to a random place on a random vEU."""
    if place := _item(rng, program, Run):
        items, at, run = place
        cut = rng.randint(1, max(1, run.count - 1))
        items[at] = replace(run, count=cut)
        _insert(rng, rng.choice(program), Run(run.operator, run.first + cut, run.count - cut))


def drop_barrier(rng: random.Random, program: Program) -> None:
    """Remove a barrier."""
    if place := _item(rng, program, Barrier):
        del place[0][place[1]]


def drop_wait(rng: random.Random, program: Program) -> None:
    """Remove one of a barrier's waits."""
    if (place := _item(rng, program, Barrier)) and place[2].waits:
        items, at, barrier = place
        waits = list(barrier.waits)
        waits.pop(rng.randrange(len(waits)))
        items[at] = Barrier(tuple(waits))


def shift_wait(rng: random.Random, program: Program) -> None:
    """Let a barrier wait for the rTask before or after the awaited one, on the same vEU."""
    if (place := _item(rng, program, Barrier)) and place[2].waits:
        items, at, barrier = place
        waits = list(barrier.waits)
        which = rng.randrange(len(waits))
        veu, order = waits[which]
        waits[which] = veu, order + rng.choice((-1, 1))
        items[at] = Barrier(tuple(waits))


def redirect_wait(rng: random.Random, program: Program) -> None:
    """Let a barrier wait for another vEU, which need not exist."""
    if (place := _item(rng, program, Barrier)) and place[2].waits:
        items, at, barrier = place
        waits = list(barrier.waits)
        which = rng.randrange(len(waits))
        veu, order = waits[which]
        waits[which] = rng.choice([n for n in range(len(program) + 1) if n != veu]), order
        items[at] = Barrier(tuple(waits))


def add_wait(rng: random.Random, program: Program) -> None:
    """Add a barrier that waits for a random rTask, at a random place."""
    waiting, other = rng.randrange(len(program)), rng.randrange(len(program))
    length = sum(item.count for item in program[other] if isinstance(item, Run))
    order = rng.randint(0, max(0, length - 1))
    _insert(rng, program[waiting], Barrier(((other, order),)))


def duplicate_barrier(rng: random.Random, program: Program) -> None:
    """Copy a barrier to a random place on its vEU.

    The copy is harmless after the original, but may be harmful before it.
    """
    if place := _item(rng, program, Barrier):
        _insert(rng, place[0], place[2])


def split_barrier(rng: random.Random, program: Program) -> None:
    """Split a barrier into two consecutive barriers, which is harmless."""
    if place := _item(rng, program, Barrier):
        items, at, barrier = place
        cut = rng.randint(0, len(barrier.waits))
        items[at : at + 1] = [Barrier(barrier.waits[cut:]), Barrier(barrier.waits[:cut])]


def swap_veus(rng: random.Random, program: Program) -> None:
    """Exchange the lists of two vEUs.

    Waits for these vEUs are not changed, and so wait for other rTasks than before.
    """
    a, b = rng.randrange(len(program)), rng.randrange(len(program))
    program[a], program[b] = program[b], program[a]


def rename_veus(rng: random.Random, program: Program) -> None:
    """Permute the indices of vEUs, in lists and in waits, which is harmless."""
    names = rng.sample(range(len(program)), len(program))
    # A redirected wait may name a vEU that does not exist.
    names.append(len(program))
    old = [list(items) for items in program]
    for veu, items in enumerate(old):
        program[names[veu]] = [
            Barrier(tuple((names[v], o) for v, o in item.waits))
            if isinstance(item, Barrier)
            else item
            for item in items
        ]


MUTATIONS: dict[str, Mutation] = {
    mutation.__name__: mutation
    for mutation in (
        drop_run,
        shrink_run,
        shift_run,
        duplicate_run,
        exchange_operators,
        swap_neighbors,
        move_on_veu,
        move_to_other_veu,
        split_run,
        split_and_move,
        drop_barrier,
        drop_wait,
        shift_wait,
        redirect_wait,
        add_wait,
        duplicate_barrier,
        split_barrier,
        swap_veus,
        rename_veus,
    )
}

HARMLESS = ("split_run", "split_barrier", "rename_veus")
"""Mutations that never break a plan."""
