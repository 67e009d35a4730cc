"""Tests that contrib operators of attention give ONNX Runtime's results."""

from __future__ import annotations

from typing import Any

import cpu_runner
import numpy as np
import pytest
from contrib_checks import Array, check_contrib, contrib_model, seven_bits
from node_checks import floats

from rammer_mlir.errors import UnsupportedError
from rammer_mlir.frontends.onnx import import_model

BATCH, LENGTH, HEADS, SIZE = 2, 4, 3, 6
WIDTH = HEADS * SIZE
X = floats(BATCH, LENGTH, WIDTH)
KEY, VALUE = floats(BATCH, 5, WIDTH, seed=1), floats(BATCH, 5, WIDTH, seed=2)
WEIGHTS, BIAS = floats(WIDTH, 3 * WIDTH, seed=3), floats(3 * WIDTH, seed=4)
PAST = floats(2, BATCH, HEADS, 2, SIZE, seed=5)


def integers(*values: Any) -> Array:
    return np.array(values, np.int32)


MASKS = {
    "lengths": integers(4, 2),
    "bounds": integers(4, 3, 0, 1),
    "keys": integers([1, 1, 1, 1], [0, 1, 1, 0]),
    "all": np.tri(LENGTH, dtype=np.int32)[None].repeat(BATCH, 0),
}


@pytest.mark.parametrize("mask", [None, *MASKS])
@pytest.mark.parametrize("unidirectional", [0, 1])
def test_attention(mask: str | None, unidirectional: int) -> None:
    inputs = [X, WEIGHTS, BIAS, None if mask is None else MASKS[mask]]
    check_contrib(
        "Attention", inputs, num_heads=HEADS, unidirectional=unidirectional, tolerance=1e-4
    )


def test_attention_with_a_past() -> None:
    check_contrib(
        "Attention",
        [X, WEIGHTS, BIAS, None, PAST],
        num_heads=HEADS,
        unidirectional=1,
        scale=0.3,
        results=(np.float32, np.float32),
        tolerance=1e-4,
    )


def test_attention_with_a_bias_of_scores() -> None:
    scores = floats(1, HEADS, LENGTH, LENGTH, seed=7)
    inputs = [X, WEIGHTS, BIAS, None, None, scores]
    check_contrib("Attention", inputs, num_heads=HEADS, tolerance=1e-4)


def test_attention_with_other_sizes() -> None:
    sizes = [WIDTH, WIDTH, 2 * WIDTH]
    weights, bias = floats(WIDTH, sum(sizes), seed=3), floats(sum(sizes), seed=4)
    check_contrib(
        "Attention",
        [X, weights, bias, MASKS["keys"]],
        num_heads=HEADS,
        qkv_hidden_sizes=sizes,
        mask_filter_value=-3.0,
        tolerance=1e-4,
    )


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("mask", ["none", "lengths", "keys", "all"])
def test_multi_head_attention(has_bias: bool, mask: str) -> None:
    masks = {
        "none": None,
        "lengths": integers(5, 2),
        "keys": integers([1, 1, 1, 1, 0], [0, 1, 1, 0, 1]),
        "all": np.tri(LENGTH, 5, dtype=np.int32)[None].repeat(BATCH, 0),
    }
    check_contrib(
        "MultiHeadAttention",
        [X, KEY, VALUE, BIAS if has_bias else None, masks[mask]],
        num_heads=HEADS,
        tolerance=1e-4,
    )


@pytest.mark.parametrize("unidirectional", [0, 1])
def test_multi_head_attention_with_a_past(unidirectional: int) -> None:
    check_contrib(
        "MultiHeadAttention",
        [X, X, X, None, None, floats(1, 1, LENGTH, 6, seed=6), PAST[0], PAST[1]],
        num_heads=HEADS,
        scale=0.5,
        unidirectional=unidirectional,
        results=(np.float32,) * 3,
        tolerance=1e-4,
    )


def test_causal_attention_to_more_keys() -> None:
    """Without a past, query ``i`` sees the keys up to ``i``, and the last query all keys."""
    inputs = [X, KEY, VALUE]
    check_contrib("MultiHeadAttention", inputs, num_heads=HEADS, unidirectional=1, tolerance=1e-4)


def test_multi_head_attention_with_heads_that_are_split() -> None:
    key, value = floats(BATCH, HEADS, 5, SIZE, seed=1), floats(BATCH, HEADS, 5, SIZE, seed=2)
    check_contrib("MultiHeadAttention", [X, key, value], num_heads=HEADS, tolerance=1e-4)


@pytest.mark.parametrize("parts", [2, 3])
def test_packed_operands_are_those_that_are_given_alone(parts: int) -> None:
    """Queries, keys and values packed in one tensor give the same results as separate tensors.

    ONNX Runtime supports the packed forms on GPUs only.
    """
    alone = [X, X * 2, X * 3]
    split = [x.reshape(BATCH, LENGTH, HEADS, 1, SIZE) for x in alone]
    packed = np.concatenate(split[3 - parts :], axis=3)
    forms = [alone, [X, packed] if parts == 2 else [packed]]
    models = [contrib_model("MultiHeadAttention", form, num_heads=HEADS) for form in forms]
    found = [
        cpu_runner.run(import_model(model), {f"in{i}": x for i, x in enumerate(form)})["out0"]
        for model, form in zip(models, forms, strict=True)
    ]
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("places", [integers(2), integers([0, 1, 2, 3], [4, 3, 2, 7])])
def test_rotary_embedding(interleaved: int, places: Array) -> None:
    cosines, sines = floats(9, SIZE // 2, seed=1), floats(9, SIZE // 2, seed=2)
    x = floats(BATCH, HEADS, LENGTH, SIZE)
    for value in (X, x):
        inputs = [value, places.astype(np.int64), cosines, sines]
        check_contrib("RotaryEmbedding", inputs, interleaved=interleaved)
    tables = [floats(9, 2, seed=1), floats(9, 2, seed=2)]
    check_contrib(
        "RotaryEmbedding",
        [X, places.astype(np.int64), *tables],
        interleaved=interleaved,
        num_heads=HEADS,
        rotary_embedding_dim=4,
    )


def grouped(**changes: Any) -> list[Any]:
    """Return the inputs of GroupQueryAttention in order, each an array, or None if it is omitted.

    There are 4 query heads, 2 key heads and no past. ``changes`` replaces inputs by name.
    """
    given = {
        "query": floats(BATCH, LENGTH, 4 * 16),
        "key": floats(BATCH, LENGTH, 2 * 16, seed=1),
        "value": floats(BATCH, LENGTH, 2 * 16, seed=2),
        "past_key": None,
        "past_value": None,
        "seqlens_k": integers(3, 3),
        "total_sequence_length": np.array(4, np.int32),
        "cos_cache": None,
        "sin_cache": None,
        "position_ids": None,
        "attention_bias": None,
        **changes,
    }
    return list(given.values())


@pytest.mark.parametrize(
    "details",
    [
        {},
        {"scale": 0.2},
        {"softcap": 0.5},
        {"local_window_size": 2},
        {"local_window_size": 1},
        {"do_rotary": 1},
        {"do_rotary": 1, "rotary_interleaved": 1},
    ],
)
@pytest.mark.parametrize("is_packed", [False, True])
def test_grouped_attention(details: dict[str, Any], is_packed: bool) -> None:
    changes: dict[str, Any] = {}
    if "do_rotary" in details:
        changes = {"cos_cache": floats(9, 8, seed=3), "sin_cache": floats(9, 8, seed=4)}
    if is_packed:
        changes |= {"query": floats(BATCH, LENGTH, 8 * 16), "key": None, "value": None}
    empty = np.zeros((BATCH, 2, 0, 16), np.float32)
    check_contrib(
        "GroupQueryAttention",
        grouped(past_key=empty, past_value=empty, **changes),
        num_heads=4,
        kv_num_heads=2,
        results=(np.float32,) * 3,
        tolerance=1e-4,
        **details,
    )


@pytest.mark.parametrize("heads", [1, 4])
def test_grouped_attention_with_a_bias(heads: int) -> None:
    inputs = grouped(attention_bias=floats(1, heads, LENGTH, LENGTH, seed=3))
    check_contrib(
        "GroupQueryAttention",
        inputs,
        num_heads=4,
        kv_num_heads=2,
        results=(np.float32,) * 3,
        tolerance=1e-4,
    )


@pytest.mark.parametrize("details", [{}, {"local_window_size": 3}, {"do_rotary": 1}])
@pytest.mark.parametrize("new", [1, 3])
def test_grouped_attention_with_a_past(details: dict[str, Any], new: int) -> None:
    """Grouped attention of new tokens with a full cache of keys and values is right."""
    past, total = 5, 5 + new
    changes: dict[str, Any] = {
        "query": floats(1, new, 4 * 16),
        "key": floats(1, new, 2 * 16, seed=1),
        "value": floats(1, new, 2 * 16, seed=2),
        "past_key": floats(1, 2, past, 16, seed=5),
        "past_value": floats(1, 2, past, 16, seed=6),
        "seqlens_k": integers(total - 1),
        "total_sequence_length": np.array(total, np.int32),
    }
    if "do_rotary" in details:
        changes |= {"cos_cache": floats(9, 8, seed=3), "sin_cache": floats(9, 8, seed=4)}
    check_contrib(
        "GroupQueryAttention",
        grouped(**changes),
        num_heads=4,
        kv_num_heads=2,
        results=(np.float32,) * 3,
        tolerance=1e-4,
        **details,
    )


def test_grouped_attention_skips_slots_that_are_not_in_use() -> None:
    """A sequence with fewer past positions than its buffer ignores the rest of the buffer.

    Its results equal those of a run with a shorter buffer.
    """
    sizes = {"query": 4 * 16, "key": 2 * 16, "value": 2 * 16}
    given = {name: floats(2, 1, size, seed=i) for i, (name, size) in enumerate(sizes.items())}
    past = {name: floats(2, 2, 5, 16, seed=i + 5) for i, name in enumerate(("key", "value"))}
    details: dict[str, Any] = {"num_heads": 4, "kv_num_heads": 2, "results": (np.float32,) * 3}

    def run(rows: slice, slots: int, lengths: Array) -> dict[str, Array]:
        inputs = grouped(
            **{name: value[rows] for name, value in given.items()},
            past_key=past["key"][rows, :, :slots],
            past_value=past["value"][rows, :, :slots],
            seqlens_k=lengths,
            total_sequence_length=np.array(slots + 1, np.int32),
        )
        model = import_model(contrib_model("GroupQueryAttention", inputs, **details))
        names = [spec.name for spec in model.signature.inputs]
        feeds = {f"in{i}": value for i, value in enumerate(inputs) if f"in{i}" in names}
        return cpu_runner.run(model, feeds)

    both, alone = run(slice(0, 2), 5, integers(5, 3)), run(slice(1, 2), 3, integers(3))
    np.testing.assert_allclose(both["out0"][1:], alone["out0"], rtol=1e-5, atol=1e-5)
    for name in ("out1", "out2"):
        np.testing.assert_array_equal(both[name][1:, :, :4], alone[name])


def test_forms_that_are_not_covered() -> None:
    model = contrib_model("Attention", [X, WEIGHTS, BIAS, integers(1, 2, 3)], num_heads=HEADS)
    with pytest.raises(UnsupportedError, match=r"the mask has the shape \[3\]: expected \[2\]"):
        import_model(model)


@pytest.mark.parametrize("unidirectional", [0, 1])
@pytest.mark.parametrize("given", ["little", "mask", "past"])
def test_quantized_attention(unidirectional: int, given: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 255, (BATCH, LENGTH, WIDTH)).astype(np.uint8)
    weights = seven_bits(rng.integers(-128, 127, (WIDTH, 3 * WIDTH)).astype(np.int8))
    scales = [np.array(0.01, np.float32), np.array(0.02, np.float32)]
    zeros = [np.array(128, np.uint8), np.array(3, np.int8)] if given != "little" else [None, None]
    mask = MASKS["keys"] if given == "mask" else None
    past = PAST if given == "past" else None
    check_contrib(
        "QAttention",
        [x, weights, BIAS, *scales, mask, *zeros, past],
        constants=(1,),
        results=[np.float32] * (1 if past is None else 2),
        tolerance=1e-4,
        num_heads=HEADS,
        unidirectional=unidirectional,
    )
