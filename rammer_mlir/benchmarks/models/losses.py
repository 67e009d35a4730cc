"""Build losses of classifiers, from scores and labels."""

from __future__ import annotations

from rammer_mlir.benchmarks.models.builder import GraphBuilder, Value


def cross_entropy(g: GraphBuilder, logits: Value, labels: Value) -> Value:
    """Add the mean negative log-likelihood of the labels, and return it, [] f32.

    ``logits`` are [..., C] f32, ``labels`` are [...] i64.
    """
    found = _at_labels(g, g.op("LogSoftmax", logits, axis=-1), labels)
    return g.op("Neg", g.op("ReduceMean", found, keepdims=0))


def softmax_cross_entropy(g: GraphBuilder, logits: Value, labels: Value) -> Value:
    """Add the negative log-likelihood of each label, and return the results, [...] f32.

    ``logits`` are [..., C] f32, ``labels`` are [...] i64. The operators are those of Dali's paper
    (section 2.4). When Dali fuses these operators, it stores the maximum, the exponential and the
    sum in temporaries.
    """
    axis = g.integers(-1)
    largest = g.op("ReduceMax", logits, axis, keepdims=1)
    exponentials = g.op("Exp", g.op("Sub", logits, largest))
    total = g.op("ReduceSum", exponentials, axis, keepdims=1)
    probabilities = g.op("Div", exponentials, total)
    found = _at_labels(g, probabilities, labels)
    return g.op("Neg", g.op("Log", g.op("Squeeze", found, axis)))


def _at_labels(g: GraphBuilder, scores: Value, labels: Value) -> Value:
    axis = len(scores.shape) - 1  # ONNX's reference evaluator rejects -1 here
    return g.op("GatherElements", scores, g.op("Unsqueeze", labels, g.integers(axis)), axis=axis)
