"""Represents ensembles of decision trees as arrays, and emits ONNX operators to traverse them.

Each step moves from a node to its successor, for all rows and trees at once; a leaf is its own
successor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from rammer_mlir.errors import ModelError
from rammer_mlir.frontends.onnx.contrib.call import Call, contrib_label
from rammer_mlir.frontends.onnx.tensors import Array

Integers = NDArray[np.int64]

LEAF, MEMBER = -1, 6
COMPARISONS = ("LessOrEqual", "Less", "GreaterOrEqual", "Greater", "Equal", "NotEqual")
"""ONNX operators of a node's comparison; the index is the node's mode."""


@dataclass(frozen=True)
class Forest:
    """Decision trees as arrays with an element for each node; leaves are nodes too.

    A node is identified by its index in these arrays, which have the nodes of all trees. Only
    ``roots`` has an element for each tree.

    Attributes:
        roots: index of each tree's root.
        features: column of the input that a node compares.
        splits: value that the column is compared with.
        modes: index of the comparison in ``COMPARISONS``; ``LEAF`` for a leaf; ``MEMBER`` for a
            test whether the column's value is in the node's set.
        yes: index of the next node if the comparison is true.
        no: index of the next node if the comparison is false.
        missing: whether the comparison counts as true for NaN.
        members: for each node, the elements of its set, padded with NaN; None without sets.
        weights: for each node, a row with its contribution to each target if it is a leaf.
    """

    roots: Integers
    features: Integers
    splits: Array
    modes: Integers
    yes: Integers
    no: Integers
    missing: NDArray[np.bool_]
    weights: Array
    members: Array | None = None

    def depth(self, call: Call) -> int:
        """Return the greatest number of comparisons between a root and a leaf.

        Raises:
            ModelError: if successors form a cycle, or do not exist.
        """
        level, count = np.unique(self.roots), 0
        while (self.modes[level] != LEAF).any():
            inner = level[self.modes[level] != LEAF]
            level = np.unique(np.concatenate([self.yes[inner], self.no[inner]]))
            count += 1
            if count > len(self.modes):
                raise ModelError(
                    f"{contrib_label(call.node)} is not valid: expected trees, found nodes that "
                    "lead back to themselves"
                )
        return count

    def descend(self, call: Call, x: str) -> str:
        """Emit the traversal of each tree for each row of ``x``.

        Returns the name of a value [rows, trees]: the indices of the leaves at which the traversals
        end.
        """
        (rows, columns), trees = call.shape_of(x), len(self.roots)
        last = int(self.features.max(initial=0))
        call.expect(last < columns, f"features below {columns}, as the input has columns", last)
        node = call.write.constant(np.tile(self.roots, (rows, 1)).reshape(rows, trees))
        for _ in range(self.depth(call)):
            node = self._step(call, x, node)
        return node

    def _step(self, call: Call, x: str, node: str) -> str:
        def look_up(table: Array) -> str:
            return call.op("Gather", call.write.constant(table), node)

        value = call.op("GatherElements", x, look_up(self.features), axis=1)
        holds = self._holds(call, value, look_up(self.splits), node)
        if self.missing.any():
            is_missing = call.op("And", call.op("IsNaN", value), look_up(self.missing))
            holds = call.op("Or", holds, is_missing)
        return call.op("Where", holds, look_up(self.yes), look_up(self.no))

    def _holds(self, call: Call, value: str, split: str, node: str) -> str:
        """Emit, for each row and tree, whether the comparison of the current node is true.

        Every kind of comparison that occurs in the trees is emitted for all nodes; each node's mode
        selects among the results.

        Args:
            call: the operator's node.
            value: name of the elements of the input to compare, [rows, trees].
            split: name of the values to compare them with, [rows, trees].
            node: name of the indices of the current nodes, [rows, trees].

        Returns:
            The name of the booleans [rows, trees].
        """
        modes = [int(mode) for mode in np.unique(self.modes) if mode != LEAF]
        found = ""
        for mode in modes:
            new = self._compared(call, mode, value, split, node)
            if found:
                is_mode = call.write.constant(self.modes == mode)
                new = call.op("Where", call.op("Gather", is_mode, node), new, found)
            found = new
        return found

    def _compared(self, call: Call, mode: int, value: str, split: str, node: str) -> str:
        if mode != MEMBER:
            if COMPARISONS[mode] == "NotEqual":
                return call.op("Not", call.op("Equal", value, split))
            return call.op(COMPARISONS[mode], value, split)
        assert self.members is not None
        last = call.write.integers(-1)
        members = call.op("Gather", call.write.constant(self.members), node)
        equal = call.op("Equal", call.op("Unsqueeze", value, last), members)
        count = call.op("ReduceSum", call.op("Cast", equal, to=TensorProto.INT32), last, keepdims=0)
        return call.op("Greater", count, call.write.constant(np.array(0, np.int32)))

    def evaluate(self, call: Call, x: str, aggregate: str) -> str:
        """Emit the result of the ensemble for each row of ``x``.

        The result is the ``aggregate`` (SUM, AVERAGE, MIN or MAX) of the reached leaves' weights
        over all trees. Returns the name of the result, [rows, targets].

        Raises:
            UnsupportedError: for the minimum or maximum of several targets.
        """
        found = call.op("Gather", call.write.constant(self.weights), self.descend(call, x))
        trees = call.write.integers(1)
        if aggregate in ("SUM", "AVERAGE"):
            total = call.op("ReduceSum", found, trees, keepdims=0)
            count = call.write.constant(np.array(len(self.roots), self.weights.dtype))
            return call.op("Div", total, count) if aggregate == "AVERAGE" else total
        if self.weights.shape[1] > 1:
            raise call.refusal(
                f"aggregate_function {aggregate} of several targets is not supported: expected SUM "
                "or AVERAGE, or one target"
            )
        if call.write.opset >= 18:
            return call.op(f"Reduce{aggregate.capitalize()}", found, trees, keepdims=0)
        return call.op(f"Reduce{aggregate.capitalize()}", found, axes=[1], keepdims=0)
