"""Tests that object detectors give ONNX Runtime's outputs and have the published sizes.

Non-maximum suppression is compared with its definition.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

import rammer_mlir
from rammer_mlir.benchmarks.comparison import Array, compare
from rammer_mlir.benchmarks.contenders.onnx_runtime import run
from rammer_mlir.benchmarks.models import DETECTORS, boxes, build, faster_rcnn, random_feeds
from rammer_mlir.benchmarks.models.builder import GraphBuilder
from rammer_mlir.benchmarks.models.counts import count
from rammer_mlir.hosted_models.model import HostedModel


def check(model: onnx.ModelProto) -> dict[str, Array]:
    """Compare a compiled model with ONNX Runtime; return ONNX Runtime's outputs."""
    onnx.checker.check_model(model)
    feeds = random_feeds(model)
    expected = run(model, feeds)
    with rammer_mlir.compile(model, num_veus=2, cache=False) as made:
        assert isinstance(made, HostedModel)
        comparison = compare(expected, made.run(feeds))
    assert comparison.ok, str(comparison)
    return expected


@pytest.mark.parametrize("name", DETECTORS)
def test_small_detectors(name: str) -> None:
    found = check(build(name, scale="small"))
    scores, places, labels = found["scores"], found["boxes"], found["labels"]
    assert scores.shape == labels.shape and places.shape == (*scores.shape, 4)
    assert (np.diff(scores[0].astype(np.float64)) <= 0).all()
    assert len(np.unique(labels)) > 1
    other = run(build(name, scale="small"), random_feeds(build(name, scale="small"), seed=1))
    assert not np.allclose(scores.astype(float), other["scores"].astype(float), rtol=1e-2)


def test_each_image_of_a_batch_by_itself() -> None:
    model = build("ssd_300_resnet34", batch=2, scale="small")
    (feeds, single) = random_feeds(model), build("ssd_300_resnet34", scale="small")
    whole = run(model, feeds)
    for number in range(2):
        alone = run(single, {"image": feeds["image"][number : number + 1]})
        own = {name: value[number : number + 1] for name, value in whole.items()}
        assert compare(alone, own).ok


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in DETECTORS if name.startswith("ssd")])
def test_full_detectors(name: str) -> None:
    check(build(name))


Floats = NDArray[np.float32]


def overlap(a: Floats, b: Floats) -> float:
    """Return the area of the intersection of two boxes, divided by the area of their union."""
    low, high = np.maximum(a[:2], b[:2]), np.minimum(a[2:], b[2:])
    common = np.prod(np.maximum(high - low, 0))
    areas = [np.prod(each[2:] - each[:2]) for each in (a, b)]
    return float(common / (sum(areas) - common))


def suppressed(
    scores: Floats, places: Floats, labels: NDArray[np.int64], rule: boxes.Suppression
) -> list[int]:
    """Return the indices of the boxes that non-maximum suppression keeps, by its definition.

    Args:
        scores: score of each box.
        places: corners of each box.
        labels: label of each box.
        rule: thresholds of scores and overlaps, and the maximum number of boxes.
    """
    left: list[int] = []
    for number in np.argsort(-scores, kind="stable"):
        others = [other for other in left if labels[other] == labels[number]]
        if scores[number] > rule.least and len(left) < rule.most:
            if all(overlap(places[number], places[o]) <= rule.overlap for o in others):
                left.append(int(number))
    return left


@pytest.mark.parametrize("most", [5, 30])
def test_suppression_by_label(most: int) -> None:
    """Non-maximum suppression treats the boxes of each label separately.

    It does so for boxes with negative corners, too. Elements of the outputs after the kept boxes
    are -1. ``most`` is the maximum number of kept boxes.
    """
    rng = np.random.default_rng(most)
    low = rng.uniform(-20, 20, (2, 40, 2))
    places = np.concatenate([low, low + rng.uniform(5, 20, low.shape)], -1).astype(np.float32)
    scores = rng.random((2, 40)).astype(np.float32)
    labels = rng.integers(0, 3, (2, 40))
    rule = boxes.Suppression(overlap=0.3, least=0.2, most=most)
    g = GraphBuilder("suppression")
    kind = onnx.TensorProto.INT64
    given = boxes.Detections(
        g.input("scores", [2, 40]), g.input("boxes", [2, 40, 4]), g.input("labels", [2, 40], kind)
    )
    boxes.outputs(g, boxes.suppress(g, given, rule), ("s", "b", "l"))
    found = run(g.finish(), {"scores": scores, "boxes": places, "labels": labels})
    for image in range(2):
        left = suppressed(scores[image], places[image], labels[image], rule)
        padding = np.full(most - len(left), boxes.NOTHING)
        expected = np.concatenate([scores[image][left], padding])
        np.testing.assert_allclose(found["s"][image].astype(float), expected)
        expected = np.concatenate([labels[image][left], padding])
        np.testing.assert_array_equal(found["l"][image], expected)
        np.testing.assert_array_equal(found["b"][image][: len(left)], places[image][left])
        assert (found["b"][image][len(left) :] == boxes.NOTHING).all()


def initializer_shapes(model: onnx.ModelProto) -> dict[str, tuple[int, ...]]:
    return {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}


@pytest.mark.parametrize(
    ("name", "anchors"),
    [
        ("ssd_300_resnet34", 8732),  # the SSD paper's number for 300x300 images
        ("ssd_512_mobilenet", 4 * (32**2 + 2**2 + 1) + 6 * (16**2 + 8**2 + 4**2)),
    ],
)
def test_anchors_of_single_shot_detectors(name: str, anchors: int) -> None:
    shapes = initializer_shapes(build(name))
    assert shapes["centers"] == shapes["sizes"] == (anchors, 2)


def test_mobilenet_v1_has_its_papers_size() -> None:
    """MobileNet v1 has its paper's 4.24 million parameters, 1.025 million in the classifier."""
    shapes = initializer_shapes(build("ssd_512_mobilenet"))
    own = [np.prod(s) for n, s in shapes.items() if n.startswith(("stem", "separable"))]
    assert (sum(own) + 1_025_000) / 1e6 == pytest.approx(4.24, rel=0.02)


def test_faster_rcnn_of_the_published_size_computes_as_much() -> None:
    """Faster R-CNN of the published size needs as many multiply-adds as torchvision counts.

    For 800x800 images, torchvision counts 134.38 billion.
    """
    size = replace(faster_rcnn.SIZES["full"], image=800, proposals=1000)
    model = faster_rcnn.build_sized(1, size)
    assert count(model).flops / 2e9 == pytest.approx(134.38, rel=0.03)
