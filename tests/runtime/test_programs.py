"""Tests that hand-written rPrograms (``ring.py``) give NumPy's results in each of many runs.

In such a ring program, each row of a layer reads two neighboring rows of the layer before.
"""

from __future__ import annotations

import numpy as np
import pytest

from rammer_mlir.runtime.executable import Executable
from tests.runtime.ring import Ring, compile_text

RUNS = 300
"""Number of runs that shows missing waits: without barriers, a few runs in ten are wrong."""

TABLE, STRAIGHT_LINE = 0, 1_000_000
"""Limits on records that force a dispatch loop, or straight-line code."""

FORMS = pytest.mark.parametrize("limit", [TABLE, STRAIGHT_LINE], ids=["table", "straight-line"])


def count_wrong(executable: Executable, ring: Ring, runs: int) -> int:
    """Run a program of ``ring.py`` ``runs`` times; return the number of runs with wrong results.

    A result is wrong if any bit differs from NumPy's result. The inputs change from run to run.
    """
    inputs = [ring.input(seed) for seed in range(4)]
    results = [ring.expected(x) for x in inputs]
    return sum(
        not np.array_equal(executable.run({"x": inputs[run % 4]})["y"], results[run % 4])
        for run in range(runs)
    )


@FORMS
@pytest.mark.parametrize("num_veus", [1, 2, 3, 8])
def test_results_are_exact_in_every_run(num_veus: int, limit: int) -> None:
    """Results are exact in every run, also with more vEUs than cores."""
    ring = Ring(num_veus)
    with ring.build(limit) as executable:
        assert count_wrong(executable, ring, RUNS) == 0


@FORMS
@pytest.mark.parametrize("num_veus", [2, 4])
def test_programs_follow_each_other(num_veus: int, limit: int) -> None:
    """An rProgram reads results of the previous rProgram from any vEU, without a barrier."""
    ring = Ring(num_veus, layers=9, programs=4)
    assert ring.text().count("rtask.program") == 4
    with ring.build(limit) as executable:
        assert count_wrong(executable, ring, RUNS) == 0


@pytest.mark.parametrize("num_veus", [2, 3])
def test_a_long_table(num_veus: int) -> None:
    """A program of thousands of records has exact results.

    By default, it is compiled to a dispatch loop.
    """
    ring = Ring(num_veus, layers=500, rows=7, columns=8)
    with ring.build() as executable:
        assert count_wrong(executable, ring, RUNS // 10) == 0


def test_both_forms_agree_with_barriers_in_both_directions() -> None:
    """A dispatch loop and straight-line code give equal results.

    In this program, each vEU waits for others and is awaited by others, and some barriers wait for
    several vEUs.
    """
    ring = Ring(4, layers=12, rows=6)
    assert ring.text().count("rtask.barrier") > 40
    with ring.build(TABLE) as table, ring.build(STRAIGHT_LINE) as straight:
        for seed in range(20):
            feeds = {"x": ring.input(seed)}
            assert np.array_equal(table.run(feeds)["y"], straight.run(feeds)["y"])


def test_a_program_without_its_barriers_is_caught_by_these_tests() -> None:
    """A ring program (``ring.py``) without its barriers gives wrong results.

    So the tests with ring programs would detect missing waits.
    """
    ring = Ring(3, layers=40, columns=400, without_barriers=True)
    assert "rtask.barrier" not in ring.text()
    with ring.build(TABLE) as executable:
        assert count_wrong(executable, ring, RUNS) > 0


def test_code_of_the_table_form_does_not_grow_with_the_program() -> None:
    """The code of a dispatch loop has the same size for a longer program; only the table grows."""
    sizes: list[int] = []
    records: list[int] = []
    for layers in (50, 1000):
        ring = Ring(2, layers=layers)
        image, code = compile_text(ring.text(), {1: ring.weights()}, ring.signature, 2, TABLE)
        sizes.append(len(code))
        records.append(len(image.table.records))
    assert records[1] > 15 * records[0]
    assert sizes[0] == sizes[1]


def test_few_records_become_straight_line_code() -> None:
    """By default, programs with few records become straight-line code, others a dispatch loop."""
    few, many = Ring(2, layers=4), Ring(2, layers=40)
    sizes = {
        (ring, limit): len(
            compile_text(ring.text(), {1: ring.weights()}, ring.signature, 2, *limit)[1]
        )
        for ring in (few, many)
        for limit in ((), (TABLE,), (STRAIGHT_LINE,))
    }
    assert sizes[few, ()] == sizes[few, (STRAIGHT_LINE,)]
    assert sizes[many, ()] == sizes[many, (TABLE,)] < sizes[many, (STRAIGHT_LINE,)]
