"""Tests that programs are encoded as the words of the tables that docs/program.md describes."""

from __future__ import annotations

import numpy as np

from rammer_mlir.programs.cpu_table import encode_for_cpu
from rammer_mlir.programs.gpu_table import Buffer, encode_for_gpu, place_records
from rammer_mlir.programs.records import (
    BarrierRecord,
    KernelSymbol,
    Launch,
    Operator,
    Program,
    RunRecord,
    Slot,
)

X, Y = Slot("input", 0, 0), Slot("output", 0, 64)
FIRST, SECOND = Slot("arena", 0, 0), Slot("arena", 0, 256)

PROGRAM = Program(
    kernels=(KernelSymbol("scale", 2), KernelSymbol("add", 3)),
    operators=(
        Operator("a", 0, (X, FIRST)),
        Operator("b", 0, (X, SECOND)),
        Operator("c", 1, (FIRST, SECOND, Y)),
    ),
    launches=(
        Launch(
            (
                (RunRecord(0, 0, 2), BarrierRecord(((1, 3),)), RunRecord(2, 0, 4)),
                (RunRecord(1, 0, 3), RunRecord(1, 3, 1)),
                (),
            )
        ),
    ),
)
"""Two rOperators side by side, and one that reads both results; a third vEU has nothing to do."""


def test_the_table_of_a_cpu() -> None:
    table = encode_for_cpu(PROGRAM)
    assert table.records.tolist() == [
        0, 0, 2, 0,  -1, 1, 1, 3,  1, 0, 4, 4,  -2,
        0, 0, 3, 2,  0, 3, 1, 2,  -2,
        -2,
    ]  # fmt: skip
    assert table.starts.tolist() == [0, 13, 22]
    assert table.totals.tolist() == [6, 4, 0]
    assert table.slots == (X, FIRST, SECOND, Y)
    assert table.arguments.tolist() == [0, 1, 0, 2, 1, 2, 3]
    assert (table.records.dtype, table.totals.dtype) == (np.int32, np.int64)


def test_the_table_of_a_gpu() -> None:
    """On a GPU, only runs that other vEUs wait for and the last run of each vEU publish a step.

    The last run publishes so that the next launch can count the completed launches.
    """
    buffers: tuple[Buffer, ...] = (("input", 0), ("output", 0), ("arena", 0))
    table = encode_for_gpu(PROGRAM, PROGRAM.launches[0], buffers)
    starts, totals = [6, 21, 32], [6, 4, 0]
    records = [
        0, 0, 2, 33, 0,  -1, 1, 1, 3,  1, 0, 4, 37, 6,  -2,
        0, 0, 3, 43, 3,  0, 3, 1, 43, 4,  -2,
        -2,
    ]  # fmt: skip
    arguments = [0, 0, 2, 0,  2, 0, 2, 256, 1, 64,  0, 0, 2, 256]  # fmt: skip
    assert table.words.tolist() == [*starts, *totals, *records, *arguments]
    placed = place_records(PROGRAM.launches[0])
    assert [[found.position for found in veu] for veu in placed] == [[6, 11, 15], [21, 26], []]


def test_launches_without_barriers_publish_nothing() -> None:
    launch = Launch(((RunRecord(0, 0, 2),), ()))
    (run,), _ = place_records(launch, counts_runs=False)
    (counted,), _ = place_records(launch)
    assert (run.publish, counted.publish) == (False, True)  # type: ignore[union-attr]


def test_what_a_launch_tells() -> None:
    launch = PROGRAM.launches[0]
    assert (launch.totals, launch.num_records, launch.busy_veus) == ((6, 4, 0), 5, 2)
    assert launch.awaited == (frozenset(), frozenset({3}), frozenset())
    assert Launch(((), ())).busy_veus == 1
