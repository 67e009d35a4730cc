"""Tests that schedules that favor data in a vEU's cache give right results.

The caches are very small.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest

from rammer_mlir.benchmarks.comparison import compare
from rammer_mlir.benchmarks.contenders.onnx_runtime import OnnxRuntime
from rammer_mlir.benchmarks.models import build, random_feeds
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options


def tiny_caches(folder: Path, num_bytes: int) -> str:
    """Write the description of a CPU on which each vEU has a private cache of ``num_bytes`` bytes.

    Return the path of the file.
    """
    text = (files("rammer_mlir.scheduling.devices") / "cpu.toml").read_text(encoding="utf-8")
    described = text.replace("unit_cache_bytes = 2097152", f"unit_cache_bytes = {num_bytes}")
    assert described != text
    path = folder / "tiny.toml"
    path.write_text(described, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(("name", "num_veus"), [("lstm_tc_unrolled", 3), ("seq2seq_unrolled", 1)])
def test_unrolled_networks(name: str, num_veus: int, tmp_path: Path) -> None:
    model = build(name, scale="small")
    feeds = random_feeds(model, seed=3)
    plain = Compilation.of_model(model, check_options(num_veus=num_veus))
    costs = tiny_caches(tmp_path, 8192)
    cached = Compilation.of_model(model, check_options(num_veus=num_veus, costs=costs))
    assert plain.emit("program") != cached.emit("program"), "the schedules must differ"
    expected = OnnxRuntime(model).run(feeds)
    with cached.executable() as executable:
        for _ in range(3):
            comparison = compare(expected, executable.run(feeds))
            assert comparison.ok, str(comparison)
