"""Tests that contrib operators of ONNX Runtime give ONNX Runtime's results."""

from __future__ import annotations

from typing import Any

import cpu_runner
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from contrib_checks import check_contrib, contrib_model
from node_checks import floats
from onnx import helper

import rammer_mlir
from rammer_mlir.errors import ModelError, UnsupportedError
from rammer_mlir.frontends.onnx import import_model

X = floats(2, 3, 8)
ROW, OTHER_ROW = floats(8, seed=1), floats(8, seed=2)


@pytest.mark.parametrize("opset", [11, 17])
def test_gelus(opset: int) -> None:
    check_contrib("Gelu", [X], version=opset)
    check_contrib("FastGelu", [X, ROW], version=opset)
    check_contrib("FastGelu", [X], version=opset)
    check_contrib("BiasGelu", [X, ROW], version=opset)
    check_contrib("QuickGelu", [X], version=opset)
    check_contrib("QuickGelu", [X], alpha=1.0, version=opset)


@pytest.mark.parametrize("opset", [12, 17, 18])
def test_normalizations(opset: int) -> None:
    skip = floats(2, 3, 8, seed=3)
    results = (np.float32, None, None, np.float32)
    check_contrib("SkipLayerNormalization", [X, skip, ROW], version=opset)
    check_contrib(
        "SkipLayerNormalization",
        [X, skip, ROW, ROW, OTHER_ROW],
        version=opset,
        results=results,
        epsilon=0.1,
    )
    check_contrib("SkipLayerNormalization", [X, skip[:1], ROW, None, OTHER_ROW], version=opset)
    check_contrib("SkipSimplifiedLayerNormalization", [X, skip, ROW], version=opset)
    check_contrib(
        "SkipSimplifiedLayerNormalization",
        [X, skip, ROW, OTHER_ROW],
        version=opset,
        results=results,
        epsilon=0.1,
    )


@pytest.mark.parametrize("axis", [-1, 1])
def test_normalizations_in_the_domain_of_onnx(axis: int) -> None:
    scale, bias = (ROW, OTHER_ROW) if axis == -1 else (floats(3, 8, seed=1), floats(3, 8, seed=2))
    for operator, inputs in (
        ("SimplifiedLayerNormalization", [X, scale]),
        ("LayerNormalization", [X, scale, bias]),
        ("LayerNormalization", [X, scale]),
    ):
        check_contrib(operator, inputs, domain="", version=14, axis=axis, epsilon=0.01)


@pytest.mark.parametrize("has_mask", [False, True])
def test_embeddings(has_mask: bool) -> None:
    rng = np.random.default_rng(0)
    ids, kinds, places = (rng.integers(0, n, (2, 4), np.int32) for n in (10, 2, 6))
    tables = [floats(n, 8, seed=n) for n in (10, 6, 2)]
    mask = np.array([[1, 1, 1, 1], [1, 1, 0, 0]], np.int32) if has_mask else None
    check_contrib(
        "EmbedLayerNormalization",
        [ids, kinds, *tables, ROW, OTHER_ROW, mask],
        results=(np.float32, np.int32, np.float32),
    )
    check_contrib(
        "EmbedLayerNormalization",
        [ids, None, *tables[:2], None, ROW, OTHER_ROW, None, places],
        results=(np.float32, np.int32),
        epsilon=0.1,
    )


@pytest.mark.parametrize("turned", ["", "A", "B", "AB"])
@pytest.mark.parametrize("batch", ["", "A", "B"])
def test_fused_products(turned: str, batch: str) -> None:
    shapes = {"A": (3, 4, 5), "B": (3, 5, 6)}
    for side in turned:
        rows, depth = shapes[side][1:]
        shapes[side] = (3, depth, rows)
    for side in batch:
        count, rows, depth = shapes[side]
        shapes[side] = (rows, count, depth)
    attributes = {**{f"trans{s}": 1 for s in turned}, **{f"transBatch{s}": 1 for s in batch}}
    inputs = [floats(*shapes["A"]), floats(*shapes["B"], seed=1)]
    check_contrib("FusedMatMul", inputs, alpha=0.5, **attributes)


def test_fused_products_of_vectors() -> None:
    check_contrib("FusedMatMul", [floats(5), floats(5, 3)], transA=1)


ACTIVATIONS: list[tuple[str, list[float]]] = [
    ("Relu", []),
    ("Tanh", []),
    ("Sigmoid", []),
    ("LeakyRelu", [0.3]),
    ("HardSigmoid", [0.3, 0.4]),
]


@pytest.mark.parametrize(("activation", "given"), [*ACTIVATIONS, ("Clip", [-0.5, 0.5])])
def test_fused_convolutions(activation: str, given: list[float]) -> None:
    inputs = [floats(1, 4, 7, 7), floats(6, 2, 3, 3, seed=1), floats(6, seed=2)]
    parameters: dict[str, Any] = {"activation_params": given} if given else {}
    details: dict[str, Any] = {"group": 2, "strides": [2, 2], "pads": [1, 1, 1, 1]}
    check_contrib("FusedConv", inputs, activation=activation, **details, **parameters)
    if activation == "Relu":
        added = floats(1, 6, 4, 4, seed=3)
        check_contrib("FusedConv", [*inputs, added], activation=activation, **details)


@pytest.mark.parametrize("operator", ["NhwcConv", "NhwcFusedConv"])
def test_convolutions_with_channels_last(operator: str) -> None:
    """Convolutions with channels last equal Conv or FusedConv on transposed images.

    ONNX Runtime cannot run them on a CPU.
    """
    x, w, b, z = floats(1, 7, 6, 4), floats(6, 2, 3, 3, seed=1), floats(6), floats(1, 4, 3, 6)
    details: dict[str, Any] = {"group": 2, "strides": [2, 2], "pads": [1, 1, 1, 1]}
    inputs, first = [x, w, b], [x.transpose(0, 3, 1, 2), w, b]
    if operator == "NhwcFusedConv":
        inputs.append(z)
        first.append(z.transpose(0, 3, 1, 2))
        details["activation"] = "Relu"
    kind = "FusedConv" if operator == "NhwcFusedConv" else "Conv"
    domain = "com.microsoft" if kind == "FusedConv" else ""
    reference = contrib_model(kind, first, domain=domain, **details)
    session = ort.InferenceSession(reference.SerializeToString())
    (expected,) = session.run(None, {f"in{i}": array for i, array in enumerate(first)})
    feeds = {f"in{i}": array for i, array in enumerate(inputs)}
    found = cpu_runner.run(import_model(contrib_model(operator, inputs, **details)), feeds)
    np.testing.assert_allclose(
        found["out0"], np.asarray(expected).transpose(0, 2, 3, 1), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize(("activation", "given"), ACTIVATIONS)
def test_fused_matrices(activation: str, given: list[float]) -> None:
    names = ("activation_alpha", "activation_beta")
    inputs = [floats(5, 4), floats(6, 5, seed=1), floats(6, seed=2)]
    parameters: dict[str, Any] = dict(zip(names, given, strict=False))
    details: dict[str, Any] = {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0}
    check_contrib("FusedGemm", inputs, activation=activation, **details, **parameters)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("zeros", ["none", "packed", "float"])
def test_products_with_packed_weights(bits: int, zeros: str) -> None:
    rng = np.random.default_rng(bits)
    rows, depth, size = 5, 40, 16
    packed = rng.integers(0, 256, (rows, 3, size * bits // 8), np.uint8)
    scales = rng.random(rows * 3, np.float32)
    points = {
        "none": None,
        "packed": rng.integers(0, 256, rows * -(-3 * bits // 8), np.uint8),
        "float": rng.random(rows * 3, np.float32) * 8,
    }[zeros]
    if (bits, zeros) == (8, "float"):
        points = None
    check_contrib(
        "MatMulNBits",
        [floats(2, 3, depth), packed, scales, points, None, floats(rows, seed=3)],
        constants=[1, 2, 3],
        tolerance=1e-3,
        N=rows,
        K=depth,
        block_size=size,
        bits=bits,
    )


def test_pooling_with_channels_last() -> None:
    x = np.random.default_rng(0).integers(-128, 128, (1, 6, 6, 3), np.int8)
    check_contrib(
        "NhwcMaxPool",
        [x],
        results=[np.int8],
        kernel_shape=[3, 3],
        strides=[2, 2],
        pads=[1, 1, 0, 0],
    )


@pytest.mark.parametrize(
    ("operator", "inputs", "details", "message"),
    [
        ("QuickGelu", [X], {"beta": 1.0}, "attribute 'beta' is not known: give the original"),
        (
            "SkipLayerNormalization",
            [X, X, ROW],
            {"results": (np.float32, np.float32)},
            "its result 'mean' is used: give the original",
        ),
        (
            "FusedConv",
            [floats(1, 1, 3, 3), floats(1, 1, 1, 1)],
            {"activation": "Mish"},
            "attribute 'activation': expected one of Clip, .*, found 'Mish'",
        ),
        (
            "MatMulNBits",
            [floats(1, 16), np.zeros((2, 1, 8), np.uint8), floats(2)],
            {"N": 2, "K": 16, "block_size": 16},
            "input 'B' has to be constant: make it an initializer",
        ),
    ],
)
def test_forms_that_are_not_covered(
    operator: str, inputs: list[Any], details: dict[str, Any], message: str
) -> None:
    expected = rf"^not supported: 'the_node' \(com\.microsoft\.{operator}\): {message}"
    with pytest.raises(UnsupportedError, match=expected):
        import_model(contrib_model(operator, inputs, **details))


PACKED = floats(8, 24)
BYTES = np.ones((2, 2), np.uint8)


@pytest.mark.parametrize(
    ("operator", "inputs", "details"),
    [
        ("Attention", [X, PACKED], {"num_heads": 0}),
        ("Attention", [X, PACKED], {"num_heads": 5}),
        ("Attention", [X, floats(7, 24)], {"num_heads": 2}),
        ("Attention", [ROW, PACKED], {"num_heads": 2}),
        ("MultiHeadAttention", [X], {"num_heads": 2}),
        ("MultiHeadAttention", [X, X, X, *[None] * 3, floats(2, 2, 1, 4)], {"num_heads": 2}),
        ("RotaryEmbedding", [X, np.array([[1]]), floats(3, 2), floats(3, 2)], {}),
        ("MultiHeadAttention", [X, X, X, floats(3)], {"num_heads": 2}),
        ("RotaryEmbedding", [X, np.array([1]), floats(3), floats(3, 3)], {}),
        ("RotaryEmbedding", [ROW, np.array([1]), floats(3, 3), floats(3, 3)], {}),
        ("RotaryEmbedding", [X, np.array([1]), floats(3, 0), floats(3, 0)], {}),
        ("QuickGelu", [X], {"alpha": "x"}),
        ("FusedMatMul", [X, X], {}),
        ("QLinearConcat", [floats(1), BYTES, BYTES], {"results": [np.uint8]}),
        ("QLinearAdd", [BYTES] * 8, {"results": [np.uint8]}),
        ("MatMulIntegerToFloat", [BYTES, floats(3), floats(1), floats(1)], {}),
        ("SimplifiedLayerNormalization", [X, ROW], {"axis": 7}),
    ],
)
def test_operands_that_do_not_fit(
    operator: str, inputs: list[Any], details: dict[str, Any]
) -> None:
    with pytest.raises(ModelError, match=r"^'the_node.* is not valid: ") as found:
        import_model(contrib_model(operator, inputs, **details))
    assert "\n" not in str(found.value)


def test_inputs_that_are_missing() -> None:
    with pytest.raises(ModelError, match=r"is not valid: expected input 'gamma', found none$"):
        import_model(contrib_model("SkipLayerNormalization", [X, X]))


@pytest.mark.parametrize(
    ("domain", "operator", "reason"),
    [
        (
            "com.microsoft.nchwc",
            "ReorderInput",
            "not an operator of ONNX; give the original model, from before its optimization",
        ),
        (
            "acme",
            "Magic",
            "not an operator of ONNX; export the model without it, or bring a function for it",
        ),
        ("", "RandomNormalLike", "results are random; make the noise an input of the model"),
    ],
)
def test_operators_that_are_not_supported(domain: str, operator: str, reason: str) -> None:
    model = contrib_model(operator, [X], domain=domain)
    if domain == "acme" or domain.endswith("nchwc"):
        model.opset_import.append(helper.make_opsetid(domain, 1))
    shown = f"{domain}.{operator}" if domain else operator
    with pytest.raises(UnsupportedError) as found:
        import_model(model)
    assert str(found.value) == f"not supported: 'the_node' ({shown}: {reason})"


BODY = """(float[3,N] x, bool c) => (float[3,N] y) {
  a = com.microsoft.Gelu(x)
  s = Shape(a)
  b = Reshape(x, s)
  d = If(c)<then_branch = t () => (float[3,N] p) { p = com.microsoft.QuickGelu(b) },
            else_branch = e () => (float[3,N] q) { q = Neg(b) }>
  y = Add(a, d)
}"""


@pytest.mark.parametrize("version", [12, 17])
def test_calls_among_other_nodes_and_in_branches(version: int) -> None:
    opsets = f'opset_import: ["": {version}, "com.microsoft": 1]'
    model = onnx.parser.parse_model(f"<ir_version: 8, {opsets}> test {BODY}")
    x = floats(3, 4)
    session = ort.InferenceSession(model.SerializeToString())
    with rammer_mlir.compile(model, num_veus=1, cache=False) as executable:
        for choice in (False, True):
            feeds = {"x": x, "c": np.array(choice)}
            found = executable.run(feeds)["y"]
            (expected,) = np.asarray(session.run(None, feeds))
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
