"""Tests that operators of ai.onnx.ml give ONNX Runtime's results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

import rammer_mlir
from rammer_mlir.errors import ModelError, RammerError

Array = NDArray[Any]

X = np.random.default_rng(0).standard_normal((7, 5)).astype(np.float32)


def model_of(operator: str, inputs: list[Array], results: Sequence[int], **attributes: Any) -> Any:
    """Return a model of one operator of ai.onnx.ml; ``results`` are its outputs' element types."""
    names = [f"x{i}" for i in range(len(inputs))]
    outputs = [f"y{i}" for i in range(len(results))]
    node = helper.make_node(operator, names, outputs, "the_node", domain="ai.onnx.ml", **attributes)
    graph = helper.make_graph(
        [node],
        "features",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for n, x in zip(names, inputs, strict=True)
        ],
        [
            helper.make_tensor_value_info(n, kind, None)
            for n, kind in zip(outputs, results, strict=True)
        ],
    )
    version = 5 if operator == "TreeEnsemble" else 4
    imports = [helper.make_opsetid("ai.onnx.ml", version), helper.make_opsetid("", 21)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def check(operator: str, inputs: list[Array], results: Sequence[int], **attributes: Any) -> None:
    """Check that all outputs of an operator's node equal ONNX Runtime's."""
    model = model_of(operator, inputs, results, **attributes)
    feeds = {f"x{i}": x for i, x in enumerate(inputs)}
    expected: Any = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)
    with rammer_mlir.compile(model, cache=False, num_veus=1) as executable:
        for found, wanted in zip(executable.run(feeds).values(), expected, strict=True):
            assert found.dtype == wanted.dtype and found.shape == wanted.shape
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def random_trees(depth: int, count: int, modes: list[str]) -> dict[str, list[Any]]:
    """Return the attributes ``nodes_...`` of ``count`` full binary trees of depth ``depth``.

    Features and thresholds are random. ``modes`` are the comparisons from which inner nodes choose,
    such as "BRANCH_LEQ".
    """
    rng = np.random.default_rng(depth)
    rows: dict[str, list[Any]] = {}
    inner = 2**depth - 1
    for tree in range(count):
        for number in range(2 ** (depth + 1) - 1):
            is_leaf = number >= inner
            row = {
                "treeids": tree,
                "nodeids": number,
                "featureids": 0 if is_leaf else int(rng.integers(X.shape[1])),
                "values": 0.0 if is_leaf else float(np.float32(rng.standard_normal() / 2)),
                "modes": "LEAF" if is_leaf else modes[int(rng.integers(len(modes)))],
                "truenodeids": 0 if is_leaf else 2 * number + 1,
                "falsenodeids": 0 if is_leaf else 2 * number + 2,
                "missing_value_tracks_true": 0 if is_leaf else int(rng.integers(2)),
            }
            for name, value in row.items():
                rows.setdefault(f"nodes_{name}", []).append(value)
    return rows


def leaf_weights(trees: dict[str, list[Any]], prefix: str, targets: int) -> dict[str, list[Any]]:
    """Return attributes with a random weight of every leaf for each of ``targets`` targets.

    ``trees`` are the attributes from ``random_trees``; ``prefix`` begins the names of the result's
    attributes.
    """
    rng = np.random.default_rng(1)
    rows: dict[str, list[Any]] = {}
    for tree, number, mode in zip(
        trees["nodes_treeids"], trees["nodes_nodeids"], trees["nodes_modes"], strict=True
    ):
        for target in range(targets if mode == "LEAF" else 0):
            weight = float(np.float32(rng.standard_normal()))
            row = {"treeids": tree, "nodeids": number, "ids": target, "weights": weight}
            for name, value in row.items():
                rows.setdefault(f"{prefix}_{name}", []).append(value)
    return rows


@pytest.mark.parametrize(
    ("modes", "aggregate", "targets"),
    [
        (["BRANCH_LEQ"], "SUM", 2),
        (["BRANCH_LT", "BRANCH_GTE", "BRANCH_NEQ"], "AVERAGE", 3),
        (["BRANCH_GT", "BRANCH_LEQ"], "MAX", 1),
        (["BRANCH_LEQ"], "MIN", 1),
    ],
)
def test_regression_by_trees(modes: list[str], aggregate: str, targets: int) -> None:
    trees = random_trees(3, 4, modes)
    x = X.copy()
    x[2, 3] = x[5] = np.nan
    weights = leaf_weights(trees, "target", targets)
    settings = {"aggregate_function": aggregate, "n_targets": targets}
    base = [0.5 * target for target in range(targets)]
    kind = [TensorProto.FLOAT]
    check("TreeEnsembleRegressor", [x], kind, **trees, **weights, **settings, base_values=base)


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC"])
def test_classification_by_trees(transform: str) -> None:
    trees = random_trees(2, 5, ["BRANCH_LEQ"])
    weights = leaf_weights(trees, "class", 3)
    labels = [10, 20, 40]
    kinds = [TensorProto.INT64, TensorProto.FLOAT]
    settings = {"classlabels_int64s": labels, "post_transform": transform}
    check("TreeEnsembleClassifier", [X], kinds, **trees, **weights, **settings)


def test_nodes_that_lead_back_are_refused() -> None:
    trees = random_trees(1, 1, ["BRANCH_LEQ"])
    trees["nodes_truenodeids"][0] = 0
    weights = leaf_weights(trees, "target", 1)
    kind = [TensorProto.FLOAT]
    model = model_of("TreeEnsembleRegressor", [X], kind, **trees, **weights, n_targets=1)
    with pytest.raises(ModelError, match="lead back to themselves"):
        rammer_mlir.compile(model, cache=False)


def test_a_feature_beyond_the_columns_is_refused() -> None:
    trees = random_trees(1, 1, ["BRANCH_LEQ"])
    trees["nodes_featureids"][0] = 5
    weights = leaf_weights(trees, "target", 1)
    kind = [TensorProto.FLOAT]
    model = model_of("TreeEnsembleRegressor", [X], kind, **trees, **weights, n_targets=1)
    with pytest.raises(ModelError, match="features below 5"):
        rammer_mlir.compile(model, cache=False)


HOLES = X.copy()
HOLES[1, 2] = HOLES[4, 4] = np.nan
CODES = np.array([[3, 7], [1, 3], [9, -2]], np.int64)
FEATURES: dict[str, tuple[list[Array], dict[str, Any]]] = {
    "ArrayFeatureExtractor": ([X, np.array([[4, 1]], np.int64)], {}),
    "Binarizer": ([X], {"threshold": 0.25}),
    "Imputer": (
        [HOLES],
        {"imputed_value_floats": [1.0, 2, 3, 4, 5], "replaced_value_float": float("nan")},
    ),
    "Scaler": ([X], {"offset": [1.0, 2, 3, 4, 5], "scale": [0.5, 1, 2, 3, 4]}),
    "LinearRegressor": (
        [X],
        {"coefficients": [*map(float, range(10))], "intercepts": [1.0, 2.0], "targets": 2},
    ),
    "OneHotEncoder": ([CODES], {"cats_int64s": [1, 3, 9], "zeros": 1}),
}


@pytest.mark.parametrize("operator", FEATURES)
def test_features(operator: str) -> None:
    inputs, attributes = FEATURES[operator]
    check(operator, inputs, [TensorProto.FLOAT], **attributes)


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_normalizer(norm: str) -> None:
    # Of positive numbers: ONNX Runtime's largest element is not the largest magnitude.
    check("Normalizer", [np.abs(X)], [TensorProto.FLOAT], norm=norm)


def test_label_encoder_between_numbers() -> None:
    keys, values = [3, 7, 9], [0.5, 1.5, 2.5]
    settings = {"keys_int64s": keys, "values_floats": values, "default_float": -7.0}
    check("LabelEncoder", [CODES], [TensorProto.FLOAT], **settings)
    x = np.array([1.0, np.nan, 3.0], np.float32)
    settings = {"keys_floats": [1.0, float("nan")], "values_int64s": [5, 6], "default_int64": -1}
    check("LabelEncoder", [x], [TensorProto.INT64], **settings)


def test_labels_that_are_strings_are_refused() -> None:
    attributes = {"keys_int64s": [1], "values_strings": ["a"]}
    model = model_of("LabelEncoder", [CODES], [TensorProto.STRING], **attributes)
    with pytest.raises(RammerError, match="strings"):
        rammer_mlir.compile(model, cache=False)


def test_linear_classification() -> None:
    settings = {
        "coefficients": [*np.random.default_rng(2).standard_normal(15)],
        "intercepts": [0.1, 0.2, 0.3],
        "classlabels_ints": [5, 6, 8],
        "post_transform": "SOFTMAX",
    }
    check("LinearClassifier", [X], [TensorProto.INT64, TensorProto.FLOAT], **settings)


@pytest.mark.parametrize("kind", ["LINEAR", "POLY", "RBF", "SIGMOID"])
@pytest.mark.parametrize("one_class", [0, 1])
def test_support_vectors(kind: str, one_class: int) -> None:
    rng = np.random.default_rng(0)
    settings: dict[str, Any] = {
        "coefficients": rng.standard_normal(6).tolist(),
        "kernel_params": [0.3, 0.5, 2.0],
        "kernel_type": kind,
        "n_supports": 6,
        "one_class": one_class,
        "rho": [0.25],
        "support_vectors": rng.standard_normal(6 * X.shape[1]).tolist(),
    }
    check("SVMRegressor", [X], [TensorProto.FLOAT], **settings)


def test_a_plane_instead_of_support_vectors() -> None:
    factors = [*map(float, range(X.shape[1]))]
    settings: dict[str, Any] = {"coefficients": factors, "rho": [0.25], "kernel_type": "LINEAR"}
    settings |= {"kernel_params": [0.0, 0.0, 0.0], "n_supports": 0, "one_class": 0}
    check("SVMRegressor", [X], [TensorProto.FLOAT], **settings)


def test_a_model_of_these_operators_alone_needs_no_other_opset() -> None:
    model = model_of("Binarizer", [X], [TensorProto.FLOAT])
    del model.opset_import[1]
    with rammer_mlir.compile(model, cache=False, num_veus=1) as executable:
        np.testing.assert_array_equal(executable.run({"x0": X})["y0"], X > 0)
