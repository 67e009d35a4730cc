"""Finds the values that determine shapes.

Constant folding evaluates these values even if they are large.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from rammer_mlir.frontends.onnx.model import used_names

SHAPE_INPUTS: Mapping[str, tuple[int, ...]] = {
    "BlackmanWindow": (0,),
    "CenterCropPad": (1,),
    "Col2Im": (1, 2),
    "Compress": (1,),
    "ConstantOfShape": (0,),
    "Expand": (1,),
    "HammingWindow": (0,),
    "HannWindow": (0,),
    "MaxUnpool": (2,),
    "MelWeightMatrix": (0, 1),
    "OneHot": (1,),
    "Pad": (1, 3),
    "Range": (0, 1, 2),
    "Reshape": (1,),
    "Resize": (2, 3),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Unsqueeze": (1,),
    **dict.fromkeys(
        (
            "ReduceL1",
            "ReduceL2",
            "ReduceLogSum",
            "ReduceLogSumExp",
            "ReduceMax",
            "ReduceMean",
            "ReduceMin",
            "ReduceProd",
            "ReduceSum",
            "ReduceSumSquare",
        ),
        (1,),
    ),
}
"""By operator: the indices of the inputs whose values determine the shape of a result."""

_DECISIONS: Mapping[str, tuple[int, ...]] = {
    "If": (0,),
    "Loop": (0, 1),
    "NonZero": (0,),
    "ScatterND": (1,),
    "SequenceAt": (1,),
    "SplitToSequence": (1,),
    "Unique": (0,),
}
"""By operator: the indices of the inputs whose values decide how the node can be compiled."""


def demanded_names(graph: onnx.GraphProto) -> set[str]:
    """Return the names of all values, constant or not, that the computation of shapes reads."""
    names: set[str] = set()
    _visit(graph, names)
    return names


def _visit(graph: onnx.GraphProto, names: set[str]) -> None:
    for node in reversed(graph.node):
        subgraphs = [g for a in node.attribute for g in (a.g, *a.graphs) if g.node or g.output]
        is_demanded = not names.isdisjoint(node.output)
        for subgraph in subgraphs:
            if is_demanded:
                names |= used_names(subgraph)
            _visit(subgraph, names)
        if is_demanded and node.op_type not in ("Shape", "Size"):
            names.update(node.input)
        numbers = SHAPE_INPUTS.get(node.op_type) or _DECISIONS.get(node.op_type, ())
        names.update(node.input[n] for n in numbers if n < len(node.input))
    names.discard("")
