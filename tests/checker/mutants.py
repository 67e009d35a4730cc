"""Makes mutants: artifacts with one random change.

The change is in the tables, in the records, in the same way in both, or in the proof.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tests.checker.files import Json, cpu_table, gpu_tables

Members = dict[str, bytes]
Change = Callable[[random.Random, Json], None]


def _veus(program: Json) -> list[list[Any]]:
    return [veu for veus in program["launches"] for veu in veus]


def _barriers(program: Json) -> list[tuple[list[Any], int]]:
    """Return, for each barrier, the vEU's list and the barrier's index in this list."""
    return [
        (veu, n) for veu in _veus(program) for n, r in enumerate(veu) if r and type(r[0]) is list
    ]


def _runs(program: Json) -> list[tuple[list[Any], int]]:
    return [(veu, n) for veu in _veus(program) for n, r in enumerate(veu) if type(r[0]) is int]


def _wait(rng: random.Random, program: Json) -> tuple[list[list[int]], int]:
    veu, n = rng.choice(_barriers(program))
    return veu[n], rng.randrange(len(veu[n]))


def drop_wait(rng: random.Random, program: Json) -> None:
    barrier, n = _wait(rng, program)
    del barrier[n]


def drop_barrier(rng: random.Random, program: Json) -> None:
    veu, n = rng.choice(_barriers(program))
    del veu[n]


def swap_waits(rng: random.Random, program: Json) -> None:
    (a, m), (b, n) = _wait(rng, program), _wait(rng, program)
    a[m], b[n] = b[n], a[m]


def shift_barrier(rng: random.Random, program: Json) -> None:
    veu, n = rng.choice(_barriers(program))
    barrier = veu.pop(n)
    veu.insert(max(0, n + rng.choice((-1, 1, 2))), barrier)


def retarget_wait(rng: random.Random, program: Json) -> None:
    barrier, n = _wait(rng, program)
    barrier[n][0] = rng.randrange(len(program["launches"][0]))


def step_off(rng: random.Random, program: Json) -> None:
    barrier, n = _wait(rng, program)
    barrier[n][1] += rng.choice((-1, 1))


def swap_records(rng: random.Random, program: Json) -> None:
    (a, m), (b, n) = rng.choice(_runs(program)), rng.choice(_runs(program))
    a[m], b[n] = b[n], a[m]


def swap_neighbors(rng: random.Random, program: Json) -> None:
    veu = rng.choice([veu for veu in _veus(program) if len(veu) > 1])
    n = rng.randrange(len(veu) - 1)
    veu[n], veu[n + 1] = veu[n + 1], veu[n]


def drop_record(rng: random.Random, program: Json) -> None:
    veu, n = rng.choice(_runs(program))
    del veu[n]


def duplicate_record(rng: random.Random, program: Json) -> None:
    veu, n = rng.choice(_runs(program))
    veu.insert(rng.randint(0, len(veu)), veu[n])


def move_record(rng: random.Random, program: Json) -> None:
    veu, n = rng.choice(_runs(program))
    other = rng.choice(_veus(program))
    other.insert(rng.randint(0, len(other)), veu.pop(n))


def first_or_count(rng: random.Random, program: Json) -> None:
    veu, n = rng.choice(_runs(program))
    veu[n] = list(veu[n])
    veu[n][rng.choice((1, 2))] += rng.choice((-1, 1))


def another_kernel(rng: random.Random, program: Json) -> None:
    rng.choice(program["operators"])[1] = rng.randrange(len(program["kernels"]))


def another_slot(rng: random.Random, program: Json) -> None:
    slots = rng.choice(program["operators"])[2]
    slots[rng.randrange(len(slots))] = rng.randrange(len(program["slots"]))


def swap_arguments(rng: random.Random, program: Json) -> None:
    slots = rng.choice(program["operators"])[2]
    a, b = rng.randrange(len(slots)), rng.randrange(len(slots))
    slots[a], slots[b] = slots[b], slots[a]


def move_slot(rng: random.Random, program: Json) -> None:
    rng.choice(program["slots"])[2] += rng.choice((-64, -4, 4, 64, 4096))


RECORDS: tuple[Change, ...] = (
    drop_wait, drop_barrier, swap_waits, shift_barrier, retarget_wait, step_off, swap_records,
    swap_neighbors, drop_record, duplicate_record, move_record, first_or_count, another_kernel,
    another_slot, swap_arguments, move_slot,
)  # fmt: skip


def encoded(program: Json, manifest: Json) -> Members:
    """Return the members with the tables that encode a program's records.

    ``program`` and ``manifest`` are the contents of these members; the manifest names the target.
    """
    if manifest["target"] == "cpu":
        return cpu_table(program)
    sizes = {"input": [0] * len(manifest["inputs"]), "output": [0] * len(manifest["outputs"])}
    return gpu_tables(program, sizes | {"constant": [0], "arena": [0]})


def _in_records(rng: random.Random, members: Members, *, both: bool) -> Members:
    program = json.loads(members["program.json"])
    change = rng.choice(RECORDS)
    try:
        change(rng, program)
        tables = encoded(program, json.loads(members["manifest.json"])) if both else {}
    except (IndexError, OverflowError):  # there is none of what it changes
        return members
    return members | {"program.json": json.dumps(program).encode()} | tables


def _in_table(rng: random.Random, members: Members) -> Members:
    """Change a word of a table, copy another word to it, or exchange two words."""
    names = {"records.bin": "<i4", "starts.bin": "<i4", "arguments.bin": "<i4", "totals.bin": "<i8"}
    names["tables.bin"] = "<i8"
    name = rng.choice([name for name in names if name in members])
    words = np.frombuffer(members[name], names[name]).copy()
    at, other = rng.randrange(len(words)), rng.randrange(len(words))
    match rng.randrange(4):
        case 0:
            words[at] += rng.choice((-1, 1))
        case 1:
            words[[at, other]] = words[[other, at]]
        case 2:
            words[at] = words[other]
        case _:
            words[at] = rng.choice((0, -1, -2, 1, 1 << 30, -(1 << 31)))
    return members | {name: words.tobytes()}


def _in_places(rng: random.Random, members: Members) -> Members:
    """Change the size of a value in the proof, or its offset in memory.

    An offset is changed either in the proof only, or in the tables and records too.
    """
    proof, program = json.loads(members["proof.json"]), json.loads(members["program.json"])
    value = rng.randrange(len(proof["values"]))
    if rng.random() < 0.1:
        proof["values"][value][3] += rng.choice((-4, 4, 64))
        return members | {"proof.json": json.dumps(proof).encode()}
    by = rng.choice((-256, -64, -4, 4, 64, 128, 1024))
    proof["values"][value][2][2] += by
    tables: Mapping[str, bytes] = {}
    if rng.random() < 0.7:
        for (_, values), (_, _, slots) in zip(
            proof["operators"], program["operators"], strict=True
        ):
            for n, (used, _) in enumerate(values):
                if used == value:
                    base, index, offset = program["slots"][slots[n]]
                    slots[n] = len(program["slots"])
                    program["slots"].append([base, index, offset + by])
        tables = encoded(program, json.loads(members["manifest.json"]))
    texts = {"proof.json": json.dumps(proof), "program.json": json.dumps(program)}
    return members | {name: text.encode() for name, text in texts.items()} | dict(tables)


def mutant(rng: random.Random, members: Members) -> Members:
    """Return the members of a mutant: ``members`` with one random change."""
    while True:
        match rng.randrange(8):
            case 0 | 1:
                found = _in_table(rng, members)
            case 2 | 3:
                found = _in_records(rng, members, both=False)
            case 4 | 5 | 6:
                found = _in_records(rng, members, both=True)
            case _:
                found = _in_places(rng, members)
        if any(found[name] != members[name] for name in members):
            return found
