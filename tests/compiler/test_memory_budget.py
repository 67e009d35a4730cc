"""Tests that the arena keeps to a memory budget, with the results of a program without a budget."""

from __future__ import annotations

import re
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import rammer_mlir
from rammer_mlir.benchmarks.models.feeds import random_feeds
from rammer_mlir.benchmarks.models.registry import IOS
from rammer_mlir.cli import compile as compile_tool
from rammer_mlir.compiler.options import check_options
from rammer_mlir.errors import OptionError
from tests.cli.tools import save_layer
from tests.compiler.budget_models import (
    inception_blocks,
    long_attention,
    random_model,
    training_step,
)

HALVED = {
    "training_step": training_step,
    "long_attention": long_attention,
    "squeezenet": partial(IOS["squeezenet"].build, 1, "small"),
    "inception": inception_blocks,
}


@cache
def model(name: str) -> onnx.ModelProto:
    """Return the model of this name in ``HALVED``."""
    return HALVED[name]()


def compiled(source: onnx.ModelProto, **options: Any) -> Any:
    """Compile a model without the compile cache; return the executable.

    It has two vEUs, unless ``options`` give another number.
    """
    given: dict[str, Any] = {"num_veus": 2, **options}
    return rammer_mlir.compile(source, cache=False, **given)


def assert_same(source: onnx.ModelProto, free: Any, limited: Any, *, exact: bool) -> None:
    """Check that a program with a memory budget computes the results of one without a budget.

    Args:
        source: the model of both programs; its inputs are random.
        free: the program without a budget.
        limited: the program with a budget.
        exact: whether the results must be equal bit by bit; else they may differ by 1e-4.
    """
    feeds = random_feeds(source)
    expected = free.run(feeds)
    for name, found in limited.run(feeds).items():
        if exact:
            np.testing.assert_array_equal(found, expected[name])
        else:
            np.testing.assert_allclose(found, expected[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", HALVED)
def test_half_the_memory(name: str) -> None:
    free = compiled(model(name))
    budget = free.stats["arena_bytes"] // 2
    limited = compiled(model(name), memory_budget=budget)
    assert limited.stats["arena_bytes"] <= budget
    assert_same(model(name), free, limited, exact=False)
    (line,) = (line for line in limited.summary.splitlines() if line.startswith("memory budget"))
    assert "instead of" in line and "rOperators wait for memory" in line
    stats = limited.stats["memory_budget"]
    assert stats["free_bytes"] == free.stats["arena_bytes"]
    assert stats["arena_bytes"] == limited.stats["arena_bytes"]


@pytest.mark.parametrize(
    "seed", [1, 3, 5, 6, 7, *(pytest.param(n, marks=pytest.mark.slow) for n in (0, 2, 4))]
)
def test_random_models(seed: int) -> None:
    source = random_model(seed)
    free = compiled(source)
    arena = free.stats["arena_bytes"]
    for share in (0.7, 0.4):
        budget = int(share * arena)
        try:
            limited = compiled(source, memory_budget=budget)
        except OptionError as error:
            least = int(re.search(r"expected at least (\d+) bytes", str(error))[1])  # type: ignore[index]
            assert budget < least <= arena
            limited, budget = compiled(source, memory_budget=least), least
        assert limited.stats["arena_bytes"] <= budget
        # What is computed again, or only waits, is computed by the same rKernels.
        only_again = limited.stats["memory_budget"]["chunks"] == 1
        assert_same(source, free, limited, exact=only_again)


@pytest.mark.parametrize("share", [0.3, 0.2])
def test_values_computed_again_are_equal_bit_by_bit(share: float) -> None:
    source = training_step()
    free = compiled(source, policy="sequential")
    limited = compiled(source, memory_budget=int(share * compiled(source).stats["arena_bytes"]))
    assert_same(source, free, limited, exact=True)


@pytest.mark.parametrize("policy", ["sequential", "list", "ios", "auto"])
def test_every_policy_keeps_to_a_budget(policy: str) -> None:
    source = long_attention()
    free = compiled(source, policy=policy)
    budget = free.stats["arena_bytes"] // 2
    limited = compiled(source, policy=policy, memory_budget=budget, num_veus=3)
    assert limited.stats["arena_bytes"] <= budget
    assert_same(source, free, limited, exact=False)


def test_a_gpu_keeps_to_a_budget() -> None:
    source = long_attention(32, 16)
    gpu: dict[str, Any] = {"target": "nvvm:sm_90", "emulate": True, "num_veus": 4}
    free = compiled(source, memory_budget=1 << 30, **gpu)
    budget = free.stats["memory_budget"]["arena_bytes"] * 3 // 5
    limited = compiled(source, memory_budget=budget, check=True, **gpu)
    assert limited.stats["memory_budget"]["arena_bytes"] <= budget
    assert_same(source, free, limited, exact=False)


def test_what_fits_is_not_changed() -> None:
    free = compiled(training_step())
    limited = compiled(training_step(), memory_budget=free.stats["arena_bytes"])
    assert limited.stats["arena_bytes"] == free.stats["arena_bytes"]
    assert "kept without a change" in limited.summary


def test_an_impossible_budget_names_the_least() -> None:
    with pytest.raises(OptionError) as caught:
        compiled(long_attention(), memory_budget=1000)
    found = re.fullmatch(
        r"memory_budget: expected at least (\d+) bytes, the least that the intermediates of this "
        r"model fit into, found 1000; give more, or a smaller batch",
        str(caught.value),
    )
    assert found is not None
    least = int(found[1])
    assert compiled(long_attention(), memory_budget=least).stats["arena_bytes"] <= least


def test_a_budget_below_zero() -> None:
    with pytest.raises(OptionError, match="memory_budget: expected at least 0 bytes, found -1"):
        check_options(memory_budget=-1)


def test_without_a_budget_no_pass_is_added() -> None:
    for target in ("cpu", "nvvm"):
        text = "".join(stage.pipeline for stage in check_options(target).portable_stages())
        assert "rtask-recompute" not in text and "rtask-pipeline" not in text
        assert "memory=" not in text


def test_sizes_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layer = save_layer(tmp_path / "layer.onnx")
    out = tmp_path / "layer.rammer"
    compile_tool.main([str(layer), "-o", str(out), "--memory-budget", "1.5KiB", "--no-cache"])
    assert "memory budget" in capsys.readouterr().out
    assert compile_tool.main([str(layer), "-o", str(out), "--memory-budget", "4MB"])
    assert "expected bytes as 4194304 or 4MiB, found '4MB'" in capsys.readouterr().err
