"""Tests of the tool that measures where a cache ends.

It finds the largest working set without cache misses, and the smallest with misses only.
"""

from __future__ import annotations

import pytest

from rammer_mlir.benchmarks.cache_ends import cache_ends, ends_of


def test_a_line_goes_through_a_tenth_and_nine_tenths() -> None:
    sizes = list(range(0, 2001, 100))
    straight = [min(max((size - 500) / 1000, 0.0), 1.0) for size in sizes]
    assert ends_of(sizes, straight) == (500, 1500)
    noisy = [part + (0.02 if n % 2 else -0.02) for n, part in enumerate(straight)]
    kept, lost = ends_of(sizes, noisy)
    assert kept == pytest.approx(500, abs=40)
    assert lost == pytest.approx(1500, abs=40)


def test_a_step_has_both_ends_at_one_place() -> None:
    kept, lost = ends_of([100, 200, 300, 400], [0.0, 0.0, 1.0, 1.0])
    assert 200 <= kept < lost <= 300


@pytest.mark.slow
def test_this_machine_has_two_ends_in_order() -> None:
    kept, lost = cache_ends(1 << 20, 5)
    assert (1 << 16) < kept <= lost < (1 << 24)
