"""Tests that chains of products that are computed chunk by chunk give right results.

They need memory for a few chunks only; chains that fit into the cache are not cut into chunks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

import rammer_mlir
from rammer_mlir.errors import OptionError
from rammer_mlir.passes.rtask_chunk_chains import ChunkChains


def attention(heads: int, tokens: int, features: int) -> onnx.ModelProto:
    """Return a model of an attention layer whose scores are [heads, tokens, tokens]."""
    shape = f"float[{heads},{tokens},{features}]"
    return parser.parse_model(f"""<ir_version: 9, opset_import: ["": 17]>
    g ({shape} q, {shape} k, {shape} v) => ({shape} y) {{
      t = Transpose<perm = [0, 2, 1]>(k)  s = MatMul(q, t)
      p = Softmax<axis = -1>(s)  y = MatMul(p, v) }}""")


def feeds_of(model: onnx.ModelProto) -> dict[str, Any]:
    random = np.random.default_rng(0)
    return {
        value.name: random.standard_normal(
            [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        ).astype(np.float32)
        for value in model.graph.input
    }


def exact(feeds: dict[str, Any]) -> Any:
    q, k, v = (feeds[name].astype(np.float64) for name in "qkv")
    scores = q @ k.transpose(0, 2, 1)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


@pytest.mark.parametrize("num_veus", [1, 2, 3])
@pytest.mark.parametrize("policy", ["wavefront", "list", "sequential", "ios"])
def test_chunks_compute_the_same(num_veus: int, policy: str) -> None:
    model = attention(4, 400, 16)
    feeds = feeds_of(model)
    program = rammer_mlir.compile(model, cache=False, num_veus=num_veus, policy=policy)
    np.testing.assert_allclose(program.run(feeds)["y"], exact(feeds), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("num_veus", [1, 2])
def test_as_many_chunks_as_veus_are_in_progress(num_veus: int) -> None:
    """The arena has memory for one chunk on each vEU, instead of memory for all chunks.

    Each of the eight heads has 1.14 MiB of scores and 1.14 MiB of attention weights.
    """
    program = rammer_mlir.compile(attention(8, 547, 16), cache=False, num_veus=num_veus)
    head = 2 * 547 * 547 * 4
    assert program.stats["arena_bytes"] <= 1.2 * num_veus * head
    assert program.stats["intermediate_bytes"] > 8 * head


def test_scores_that_fit_into_the_cache_are_not_cut() -> None:
    program = rammer_mlir.compile(attention(4, 128, 16), cache=False, num_veus=1)
    assert "rOperators" in program.summary
    count = next(line for line in program.summary.splitlines() if "rOperators" in line)
    assert int(count.split()[1]) <= 4


def test_the_cache_has_at_least_a_byte() -> None:
    with pytest.raises(OptionError, match="cache: expected at least 1, found 0"):
        ChunkChains(cache=0).check_options()
