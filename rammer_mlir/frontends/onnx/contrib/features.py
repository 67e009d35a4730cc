"""Expands feature transformations and linear models of ai.onnx.ml to ONNX operators."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from rammer_mlir.frontends.onnx.contrib.call import Call
from rammer_mlir.frontends.onnx.contrib.rule import Rule
from rammer_mlir.frontends.onnx.contrib.scores import post_transform
from rammer_mlir.frontends.onnx.tensors import Array

_F32 = np.dtype(np.float32)


def _float(call: Call) -> str:
    return call.cast(call.find(0), TensorProto.FLOAT)


def _constant(call: Call, name: str, default: list[float]) -> str:
    return call.write.constant(np.array(call.attribute(name, default), _F32))


def _array_feature_extractor(call: Call) -> None:
    chosen = call.reshape(call.find(1), -1)
    found = call.op("Gather", call.find(0), chosen, axis=-1)
    # A vector counts as one row.
    call.finish(call.reshape(found, 1, -1) if len(call.shape(0)) == 1 else found)


def _binarizer(call: Call) -> None:
    threshold = call.scalar(call.attribute("threshold", 0.0))
    above = call.op("Greater", call.find(0), threshold)
    call.finish(call.cast(above, call.kinds[call.find(0)].elem_type))


def _scaler(call: Call) -> None:
    x = call.op("Sub", _float(call), _constant(call, "offset", [0.0]))
    call.finish(call.op("Mul", x, _constant(call, "scale", [1.0])))


def _normalizer(call: Call) -> None:
    x, norm = _float(call), call.attribute("norm", "MAX")
    if norm == "MAX":
        top = _reduced(call, "ReduceMax", call.op("Abs", x))
        divisor = call.op("Where", call.op("Equal", top, _zero(call)), _one(call), top)
        call.finish(call.op("Div", x, divisor))
        return
    call.expect(norm in ("L1", "L2"), "a norm of MAX, L1, L2", norm)
    call.finish(call.op("LpNormalization", x, axis=-1, p=int(norm[1])))


def _zero(call: Call) -> str:
    return call.write.constant(np.array(0, _F32))


def _one(call: Call) -> str:
    return call.write.constant(np.array(1, _F32))


def _reduced(call: Call, operator: str, value: str) -> str:
    if call.write.opset >= 18:
        return call.op(operator, value, call.write.integers(-1), keepdims=1)
    return call.op(operator, value, axes=[-1], keepdims=1)


def _imputer(call: Call) -> None:
    x, is_float = call.find(0), call.dtype().kind == "f"
    names = ("floats", "float") if is_float else ("int64s", "int64")
    values: Array = np.array(_list(call, f"imputed_value_{names[0]}"), call.dtype())
    missing = next(
        (_value(a) for a in call.node.attribute if a.name == f"replaced_value_{names[1]}"), 0
    )
    if is_float and np.isnan(missing):
        is_missing = call.op("IsNaN", x)
    else:
        is_missing = call.op("Equal", x, call.scalar(missing))
    call.finish(call.op("Where", is_missing, call.write.constant(values), x))


def _value(attribute: onnx.AttributeProto) -> float:
    return attribute.f if attribute.type == onnx.AttributeProto.FLOAT else attribute.i


def _list(call: Call, name: str) -> list[float]:
    given = next((a for a in call.node.attribute if a.name == name), None)
    if given is None:
        raise call.refusal(f"attribute '{name}': expected one that fits its input, found none")
    return list(helper.get_attribute_value(given))  # type: ignore[arg-type]


def _label_encoder(call: Call) -> None:
    """Emit LabelEncoder: map an element to the value of the first equal key, else to a default."""
    x = call.find(0)
    keys, values, default = (_table(call, what) for what in ("keys", "values", "default"))
    if default is None:
        assert values is not None
        default = np.array(0.0 if values.dtype.kind == "f" else -1, values.dtype)
    assert keys is not None and values is not None
    last = call.write.integers(-1)
    wide, table = call.op("Unsqueeze", x, last), call.write.constant(keys)
    equal = call.op("Equal", wide, table)
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        both = call.op("And", call.op("IsNaN", wide), call.write.constant(np.isnan(keys)))
        equal = call.op("Or", equal, both)
    found = call.op("Cast", equal, to=TensorProto.INT32)
    which = call.op("ArgMax", found, axis=-1, keepdims=0)
    count = call.op("ReduceSum", found, last, keepdims=0)
    chosen = call.op("Gather", call.write.constant(values), which)
    is_known = call.op("Greater", count, call.write.constant(np.array(0, np.int32)))
    call.finish(call.op("Where", is_known, chosen, call.write.constant(default.reshape(()))))


def _table(call: Call, what: str) -> Array | None:
    """Return LabelEncoder's attribute ``keys``, ``values`` or ``default``, as an array.

    The attribute's name ends with the element type, as in ``keys_int64s``; ``what`` is the name
    without this suffix. Returns None if the node has no such attribute. A default of strings is
    ignored; keys and values of strings are refused.
    """
    forms = {"_tensor": None, "_int64": np.int64, "_float": np.float32, "_string": None}
    for attribute in call.node.attribute:
        form = attribute.name.removeprefix(what).removesuffix("s")
        if not attribute.name.startswith(f"{what}_") or form not in forms:
            continue
        value = helper.get_attribute_value(attribute)
        if isinstance(value, onnx.TensorProto):
            value = numpy_helper.to_array(value)
        dtype = forms[form]
        found: Array = np.asarray(value) if dtype is None else np.asarray(value, dtype)
        if found.dtype.kind in "OSU":
            if what == "default":
                continue
            raise call.refusal(f"its {what} are strings: expected numbers")
        return found
    return None


def _one_hot_encoder(call: Call) -> None:
    if any(a.name == "cats_strings" and a.strings for a in call.node.attribute):
        raise call.refusal("its categories are strings: expected cats_int64s")
    categories = call.write.constant(np.array(_list(call, "cats_int64s"), np.int64))
    x = call.cast(call.find(0), TensorProto.INT64)
    equal = call.op("Equal", call.op("Unsqueeze", x, call.write.integers(-1)), categories)
    call.finish(call.op("Cast", equal, to=TensorProto.FLOAT))


def _linear(call: Call, coefficients: str, targets: int) -> str:
    weights = np.array(call.attribute(coefficients, [0.0]), _F32).reshape(targets, -1)
    y = call.op("MatMul", _rows(call), call.write.constant(weights.T))
    intercepts = call.attribute("intercepts", [0.0])
    return call.op("Add", y, call.write.constant(np.array(intercepts, _F32)))


def _rows(call: Call) -> str:
    x = _float(call)
    return call.reshape(x, 1, -1) if len(call.shape(0)) == 1 else x


def _linear_regressor(call: Call) -> None:
    y = _linear(call, "coefficients", call.attribute("targets", 1))
    call.finish(post_transform(call, y, call.attribute("post_transform", "NONE")))


def _linear_classifier(call: Call) -> None:
    if not any(a.name == "classlabels_ints" for a in call.node.attribute):
        raise call.refusal("its labels are strings: expected classlabels_ints")
    labels = np.array(_list(call, "classlabels_ints"), np.int64)
    given = len(call.attribute("intercepts", [0.0]))
    if given != len(labels):
        raise call.refusal(f"expected scores of all {len(labels)} classes, found {given}")
    scores = _linear(call, "coefficients", len(labels))
    best = call.op("ArgMax", scores, axis=1, keepdims=0)
    call.finish(call.op("Gather", call.write.constant(labels), best))
    call.finish(post_transform(call, scores, call.attribute("post_transform", "NONE")), 1)


def _feature_vectorizer(call: Call) -> None:
    parts = [call.cast(name, TensorProto.FLOAT) for name in call.node.input]
    call.finish(call.op("Concat", *parts, axis=-1))


_IMPUTED = "imputed_value_floats imputed_value_int64s replaced_value_float replaced_value_int64"
_ENCODED = " ".join(f"{part}_{form}" for part in ("keys", "values") for form in
                    ("floats", "int64s", "strings", "tensor"))  # fmt: skip
_LINEAR = "coefficients intercepts post_transform"

RULES: dict[str, Rule] = {
    "ArrayFeatureExtractor": Rule(_array_feature_extractor, "X Y", "Z"),
    "Binarizer": Rule(_binarizer, "X", "Y", "threshold"),
    "FeatureVectorizer": Rule(_feature_vectorizer, "X *", "Y", "inputdimensions"),
    "Imputer": Rule(_imputer, "X", "Y", _IMPUTED),
    "LabelEncoder": Rule(
        _label_encoder,
        "X",
        "Y",
        f"{_ENCODED} default_float default_int64 default_string default_tensor",
    ),
    "LinearClassifier": Rule(
        _linear_classifier,
        "X",
        "Y Z",
        f"{_LINEAR} classlabels_ints classlabels_strings multi_class",
    ),
    "LinearRegressor": Rule(_linear_regressor, "X", "Y", f"{_LINEAR} targets"),
    "Normalizer": Rule(_normalizer, "X", "Y", "norm"),
    "OneHotEncoder": Rule(_one_hot_encoder, "X", "Y", "cats_int64s cats_strings", {"zeros": 1}),
    "Scaler": Rule(_scaler, "X", "Y", "offset scale"),
}
"""Rules by operator name."""
