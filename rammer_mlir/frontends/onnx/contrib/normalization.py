"""Expands ONNX Runtime's layer and RMS normalizations of one input, or of a sum of inputs."""

from __future__ import annotations

import onnx

from rammer_mlir.frontends.onnx.contrib.call import Call
from rammer_mlir.frontends.onnx.contrib.rule import Rule

_LAYER_NORMALIZATION = 17
"""The first opset with LayerNormalization."""

_FLOAT = onnx.TensorProto.FLOAT
_SKIP_RESULTS = "output mean! inv_std_var! input_skip_bias_sum"


def layer_normalized(
    call: Call, x: str, scale: str, bias: str, epsilon: float = 1e-12, axis: int = -1
) -> str:
    """Emit a layer normalization of ``x`` over the dimensions from ``axis`` on.

    In opsets without the operator LayerNormalization, simpler operators compute it. ``x``,
    ``scale`` and ``bias`` are names of values; ``bias`` is empty for no bias. ``epsilon`` is added
    to the variance. Returns the result's name.
    """
    if call.write.opset >= _LAYER_NORMALIZATION:
        inputs = [x, scale, bias] if bias else [x, scale]
        return call.op("LayerNormalization", *inputs, axis=axis, epsilon=epsilon)
    wide = call.cast(x, _FLOAT)
    return _scaled(
        call, call.op("Sub", wide, call.mean(wide, axis)), x, (scale, bias), epsilon, axis
    )


def _root_mean_square(call: Call, x: str, scale: str, epsilon: float, axis: int = -1) -> str:
    return _scaled(call, call.cast(x, _FLOAT), x, (scale, ""), epsilon, axis)


def _scaled(
    call: Call, wide: str, x: str, factors: tuple[str, str], epsilon: float, axis: int
) -> str:
    """Emit ``wide`` divided by its root mean square, times a scale, plus a bias.

    Args:
        call: the operator's node.
        wide: name of an f32 value: the operator's input; for a layer normalization, the input minus
            its mean.
        x: name of the value whose dtype the result has.
        factors: names of the scale and of the bias; the bias may be empty.
        epsilon: number added to the mean of the squares.
        axis: first dimension of the mean, which is over this and all later dimensions.

    Returns:
        The name of the result.
    """
    squares = call.mean(call.op("Mul", wide, wide), axis)
    root = call.op("Sqrt", call.op("Add", squares, call.scalar(epsilon, wide)))
    normal = call.cast(call.op("Div", wide, root), call.kinds[x].elem_type)
    scale, bias = factors
    return call.sum(call.op("Mul", normal, scale), bias)


def _skip_layer(call: Call) -> None:
    epsilon = call.attribute("epsilon", 1e-12)
    total = call.sum(call.find(0), call.find(1), call.find(4))
    call.finish(total, 3)
    call.finish(layer_normalized(call, total, call.find(2), call.find(3), epsilon))


def _skip_simplified(call: Call) -> None:
    epsilon = call.attribute("epsilon", 1e-12)
    total = call.sum(call.find(0), call.find(1), call.find(3))
    call.finish(total, 3)
    call.finish(_root_mean_square(call, total, call.find(2), epsilon))


def _simplified(call: Call) -> None:
    epsilon, axis = call.attribute("epsilon", 1e-5), call.attribute("axis", -1)
    call.finish(_root_mean_square(call, call.find(0), call.find(1), epsilon, axis))


def _layer(call: Call) -> None:
    epsilon, axis = call.attribute("epsilon", 1e-5), call.attribute("axis", -1)
    call.finish(layer_normalized(call, *_operands(call), epsilon, axis))


def _operands(call: Call) -> tuple[str, str, str]:
    return call.find(0), call.find(1), call.find(2)


def _embed(call: Call) -> None:
    """Emit EmbedLayerNormalization: the normalized sum of word, position and segment embeddings."""
    ids, segments, words, positions, kinds, gamma, beta, mask, places = map(call.find, range(9))
    length = call.shape(0)[1]
    total = call.op("Gather", words, ids)
    total = call.sum(
        total,
        call.op("Gather", positions, places) if places else call.write.part(positions, 0, length),
    )
    if segments and kinds:
        total = call.sum(total, call.op("Gather", kinds, segments))
    call.finish(total, 2)
    if call.uses(1):
        call.finish(_lengths(call, mask), 1)
    epsilon = call.attribute("epsilon", 1e-12)
    call.finish(layer_normalized(call, total, gamma, beta, epsilon))


def _lengths(call: Call, mask: str) -> str:
    """Emit the count of ones in each row of ``mask``; return the result's name.

    If ``mask`` is empty, that is, if the node has no mask, all counts are 0.
    """
    rows = mask or call.op("Mul", call.find(0), call.scalar(0))
    wide = call.cast(rows, onnx.TensorProto.INT32)
    return call.op("ReduceSum", wide, call.write.integers(1), keepdims=0)


RULES = {
    "EmbedLayerNormalization": Rule(
        _embed,
        "input_ids segment_ids? word_embedding position_embedding segment_embedding? gamma beta "
        "mask? position_ids?",
        "output mask_index embedding_sum",
        "epsilon mask_index_type",
    ),
    "LayerNormalization": Rule(
        _layer, "X Scale B?", "Y Mean! InvStdDev!", "axis epsilon", {"stash_type": 1}
    ),
    "SimplifiedLayerNormalization": Rule(
        _simplified, "X scale", "Y inv_std_var!", "axis epsilon", {"stash_type": 1}
    ),
    "SkipLayerNormalization": Rule(
        _skip_layer, "input skip gamma beta? bias?", _SKIP_RESULTS, "epsilon"
    ),
    "SkipSimplifiedLayerNormalization": Rule(
        _skip_simplified, "input skip gamma bias?", _SKIP_RESULTS, "epsilon"
    ),
}
