"""Tests that TfIdfVectorizer of integers gives ONNX Runtime's results."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import rammer_mlir


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize("shape", [(12,), (3, 6)])
@pytest.mark.parametrize("kind", [TensorProto.INT32, TensorProto.INT64])
def test_weighted_counts(mode: str, shape: tuple[int, ...], kind: int) -> None:
    """Weighted counts of single integers and of pairs in a row agree with ONNX Runtime.

    The two integers of a pair may have up to two others between them.
    """
    node = helper.make_node(
        "TfIdfVectorizer",
        ["x"],
        ["y"],
        pool_int64s=[2, 3, 5, 4, 5, 6, 7, 8, 6, 7],
        ngram_counts=[0, 4],
        mode=mode,
        min_gram_length=1,
        max_gram_length=2,
        max_skip_count=2,
        ngram_indexes=[6, 0, 1, 2, 3, 4, 5],
        weights=[0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 0.25],
    )
    graph = helper.make_graph(
        [node],
        "ngrams",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    x = np.random.default_rng(0).integers(2, 9, shape)
    feeds = {"x": x.astype(helper.tensor_dtype_to_np_dtype(kind))}
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)
    with rammer_mlir.compile(model, cache=False, num_veus=1) as executable:
        np.testing.assert_allclose(executable.run(feeds)["y"], np.asarray(expected))
