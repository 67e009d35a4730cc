"""Emits ``post_transform``, the function that ai.onnx.ml's operators apply to their scores."""

from __future__ import annotations

from rammer_mlir.frontends.onnx.contrib.call import Call

POST_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


def post_transform(call: Call, scores: str, kind: str) -> str:
    """Emit the post-transform ``kind`` of scores [rows, classes]; return the result's name.

    Raises:
        UnsupportedError: for the rarely used transforms SOFTMAX_ZERO and PROBIT.
    """
    if kind == "NONE":
        return scores
    if kind == "SOFTMAX":
        return call.op("Softmax", scores, axis=-1)
    if kind == "LOGISTIC":
        return call.op("Sigmoid", scores)
    raise call.refusal(
        f"post_transform {kind} is not supported: expected NONE, SOFTMAX or LOGISTIC"
    )
