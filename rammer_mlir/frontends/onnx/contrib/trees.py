"""Expands decision trees of ai.onnx.ml: TreeEnsemble, and its Regressor and Classifier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from rammer_mlir.frontends.onnx.contrib.call import Call
from rammer_mlir.frontends.onnx.contrib.forest import LEAF, MEMBER, Forest, Integers
from rammer_mlir.frontends.onnx.contrib.rule import Rule
from rammer_mlir.frontends.onnx.contrib.scores import POST_TRANSFORMS, post_transform
from rammer_mlir.frontends.onnx.tensors import Array

_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


# Any: attributes have the types that the operator says.
def _attributes(call: Call) -> Mapping[str, Any]:
    found = {a.name: helper.get_attribute_value(a) for a in call.node.attribute}
    return {
        name: numpy_helper.to_array(value) if hasattr(value, "data_type") else value
        for name, value in found.items()
    }


def _integers(values: Any) -> Integers:
    return np.asarray(values, np.int64).reshape(-1)


def _tree_ensemble(call: Call) -> None:
    given = _attributes(call)
    leaves = _integers(given["leaf_targetids"])
    splits: Array = given["nodes_splits"]
    nodes, total = len(splits), len(splits) + len(leaves)
    itself = np.arange(nodes, total)

    def links(name: str) -> Integers:
        ids, is_leaf = _integers(given[f"nodes_{name}nodeids"]), given[f"nodes_{name}leafs"]
        return np.concatenate([ids + nodes * _integers(is_leaf), itself])

    weights = np.zeros((total, given["n_targets"]), splits.dtype)
    weights[itself, leaves] = given["leaf_weights"]
    modes = np.concatenate([_integers(given["nodes_modes"]), np.full(len(leaves), LEAF)])
    missing = np.zeros(total, np.bool_)
    missing[:nodes] = given.get("nodes_missing_value_tracks_true", np.zeros(nodes))
    forest = Forest(
        _integers(given["tree_roots"]),
        np.concatenate([_integers(given["nodes_featureids"]), 0 * itself]),
        np.concatenate([splits, np.zeros(len(leaves), splits.dtype)]),
        modes,
        links("true"),
        links("false"),
        missing,
        weights,
        _members(given.get("membership_values"), modes),
    )
    y = forest.evaluate(call, call.find(0), _AGGREGATES[given.get("aggregate_function", 1)])
    transform = POST_TRANSFORMS[given.get("post_transform", 0)]
    call.finish(post_transform(call, y, transform))


def _members(values: Array | None, modes: Integers) -> Array | None:
    """Return, for each node, a row with the elements of its set; None if ``values`` is None.

    A node of mode MEMBER tests whether a value is in its set. Rows are padded with NaN. ``values``
    has the elements of all sets, in the order of the nodes of mode MEMBER; NaN ends a set.
    """
    if values is None:
        return None
    ends = np.flatnonzero(np.isnan(values))
    sets = np.split(values, ends + 1)
    rows = np.full((len(modes), max(map(len, sets))), np.nan, values.dtype)
    for number, members in zip(np.flatnonzero(modes == MEMBER), sets, strict=False):
        rows[number, : len(members)] = members
    return rows


def _forest_of_tables(
    call: Call, given: Mapping[str, Any], prefix: str, targets: int, dtype: np.dtype[np.generic]
) -> Forest:
    """Return the trees of TreeEnsembleRegressor or TreeEnsembleClassifier as a ``Forest``.

    The attributes of these operators are lists. Lists with the prefix ``nodes`` have an element for
    each node; lists with the prefix ``target`` or ``class`` have an element for each weight of a
    leaf. All lists identify a node by a pair: the tree's ID, and the node's ID in the tree.

    Args:
        call: the operator's node.
        given: the attributes of ``call``, by name.
        prefix: prefix of the attributes of leaves: ``target`` or ``class``.
        targets: count of targets or classes.
        dtype: dtype of split values and weights.
    """
    trees, ids = _integers(given["nodes_treeids"]), _integers(given["nodes_nodeids"])
    number = {pair: i for i, pair in enumerate(zip(trees.tolist(), ids.tolist(), strict=True))}
    modes = np.array([_mode(call, mode) for mode in given["nodes_modes"]], np.int64)
    is_leaf = modes == LEAF

    def links(name: str) -> Integers:
        pairs = zip(trees.tolist(), _integers(given[name]).tolist(), strict=True)
        return np.array([i if is_leaf[i] else number[p] for i, p in enumerate(pairs)], np.int64)

    weights = np.zeros((len(ids), targets), dtype)
    owners = zip(given[f"{prefix}_treeids"], given[f"{prefix}_nodeids"], strict=True)
    places = np.array([number[pair] for pair in owners], np.int64)
    np.add.at(weights, (places, _integers(given[f"{prefix}_ids"])), given[f"{prefix}_weights"])
    missing = np.asarray(given.get("nodes_missing_value_tracks_true") or 0 * ids, np.bool_)
    return Forest(
        _roots(trees),
        np.where(is_leaf, 0, _integers(given["nodes_featureids"])),
        np.asarray(given["nodes_values"], dtype),
        modes,
        links("nodes_truenodeids"),
        links("nodes_falsenodeids"),
        missing,
        weights,
    )


def _roots(trees: Integers) -> Integers:
    """Return the index of each tree's root, which is the first node of the tree.

    ``trees`` has the tree's ID for each node.
    """
    return np.sort(np.unique(trees, return_index=True)[1]).astype(np.int64)


def _mode(call: Call, mode: bytes) -> int:
    text = mode.decode(errors="replace")
    call.expect(text == "LEAF" or text in _MODES, f"nodes_modes of {', '.join(_MODES)}", text)
    return LEAF if text == "LEAF" else _MODES.index(text)


def _refuse_tensors(call: Call, given: Mapping[str, Any]) -> None:
    wide = [name for name in given if name.endswith("_as_tensor")]
    if wide:
        raise call.refusal(f"attribute '{wide[0]}' is not supported: expected a list of floats")


def _based(call: Call, y: str, given: Mapping[str, Any]) -> str:
    base: NDArray[np.float32] = np.asarray(given.get("base_values", []), np.float32)
    return call.op("Add", y, call.write.constant(base)) if base.size else y


def _regressor(call: Call) -> None:
    given = _attributes(call)
    _refuse_tensors(call, given)
    forest = _forest_of_tables(call, given, "target", given["n_targets"], np.dtype(np.float32))
    x = call.cast(call.find(0), helper.np_dtype_to_tensor_dtype(np.dtype(np.float32)))
    y = forest.evaluate(call, x, call.attribute("aggregate_function", "SUM"))
    call.finish(
        post_transform(call, _based(call, y, given), call.attribute("post_transform", "NONE"))
    )


def _classifier(call: Call) -> None:
    given = _attributes(call)
    _refuse_tensors(call, given)
    labels = given.get("classlabels_int64s")
    if not labels:
        raise call.refusal("its labels are strings: expected classlabels_int64s")
    if len(labels) == 2 and len(set(given["class_ids"])) == 1:
        raise call.refusal("leaves weigh one of two classes: expected weights of both")
    forest = _forest_of_tables(call, given, "class", len(labels), np.dtype(np.float32))
    x = call.cast(call.find(0), helper.np_dtype_to_tensor_dtype(np.dtype(np.float32)))
    scores = _based(call, forest.evaluate(call, x, "SUM"), given)
    best = call.op("ArgMax", scores, axis=1, keepdims=0)
    call.finish(call.op("Gather", call.write.constant(_integers(labels)), best))
    call.finish(post_transform(call, scores, call.attribute("post_transform", "NONE")), 1)


_NODES = """nodes_falsenodeids nodes_featureids nodes_hitrates nodes_hitrates_as_tensor
    nodes_missing_value_tracks_true nodes_modes nodes_nodeids nodes_treeids nodes_truenodeids
    nodes_values nodes_values_as_tensor base_values base_values_as_tensor post_transform """

RULES: dict[str, Rule] = {
    "TreeEnsemble": Rule(
        _tree_ensemble,
        "X",
        "Y",
        "aggregate_function leaf_targetids leaf_weights membership_values n_targets "
        "nodes_falseleafs nodes_falsenodeids nodes_featureids nodes_hitrates "
        "nodes_missing_value_tracks_true nodes_modes nodes_splits nodes_trueleafs "
        "nodes_truenodeids post_transform tree_roots",
    ),
    "TreeEnsembleClassifier": Rule(
        _classifier,
        "X",
        "Y Z",
        _NODES + "class_ids class_nodeids class_treeids class_weights class_weights_as_tensor "
        "classlabels_int64s classlabels_strings",
    ),
    "TreeEnsembleRegressor": Rule(
        _regressor,
        "X",
        "Y",
        _NODES + "aggregate_function n_targets target_ids target_nodeids target_treeids "
        "target_weights target_weights_as_tensor",
    ),
}
"""Rules by operator name."""
