"""Build RandWire, randomly wired, in its regular regime (Xie et al., ICCV 2019; IOS, Table 2).

The regular regime is the larger of the paper's two computation regimes. A stage is a Watts-Strogatz
graph WS(n, 4, 0.75) of n nodes, whose edges are directed from the node with the lower index to the
node with the higher index. A node computes a weighted sum of its inputs with weights between 0 and
1, then ReLU, a separable 3x3 convolution and a batch norm. The result of a stage is the mean over
the nodes that no other node reads.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx

from rammer_mlir.benchmarks.models.builder import GraphBuilder, Value
from rammer_mlir.benchmarks.models.scale import Scale

NEIGHBORS, REWIRED = 4, 0.75
LAST_CHANNELS = 1280


@dataclass(frozen=True)
class RandWire:
    """Sizes of the network.

    Attributes:
        image: height and width of the image in pixels.
        channels: channels of the first stage; the number doubles from stage to stage.
        nodes: number of nodes of each stage.
        last_channels: channels before the classifier.
        classes: number of classes.
    """

    image: int
    channels: int
    nodes: tuple[int, ...]
    last_channels: int
    classes: int


SIZES = {
    "full": RandWire(224, 154, (16, 32, 32, 32), LAST_CHANNELS, 1000),
    "small": RandWire(64, 8, (6, 8), 32, 20),
}


def build(batch: int, scale: Scale) -> onnx.ModelProto:
    """Build the classifier: ``image`` [N, 3, 224, 224] f32 to ``logits`` [N, 1000] f32."""
    size = SIZES[scale]
    g = GraphBuilder("randwire", seed=154)
    x = g.input("image", [batch, 3, size.image, size.image])
    with g.scope("stem"):
        x = g.batch_norm(g.conv(x, size.channels // 2, 3, stride=2))
    for number, nodes in enumerate(size.nodes):
        with g.scope(f"stage{number + 1}"):
            x = _stage(g, x, size.channels << number, nodes)
    x = g.batch_norm(g.conv(g.op("Relu", x), size.last_channels, 1))
    x = g.op("Flatten", g.op("GlobalAveragePool", g.op("Relu", x)))
    g.output(g.gemm(x, size.classes), "logits")
    return g.finish()


def watts_strogatz(rng: np.random.Generator, nodes: int) -> list[list[int]]:
    """Draw a Watts-Strogatz graph WS(nodes, 4, 0.75); return the nodes that each node reads.

    Edges are directed from the lower to the higher node index.
    """
    ring = [(i, (i + step) % nodes) for step in range(1, NEIGHBORS // 2 + 1) for i in range(nodes)]
    edges = {frozenset(edge) for edge in ring}
    for start, end in ring:
        free = [n for n in range(nodes) if n != start and frozenset((start, n)) not in edges]
        if free and rng.random() < REWIRED:
            edges.remove(frozenset((start, end)))
            edges.add(frozenset((start, int(rng.choice(free)))))
    pairs = sorted(sorted(edge) for edge in edges)
    return [[low for low, high in pairs if high == node] for node in range(nodes)]


def _stage(g: GraphBuilder, x: Value, channels: int, nodes: int) -> Value:
    """Add a random stage and return its result; nodes that read ``x`` halve height and width."""
    sources = watts_strogatz(g.rng, nodes)
    results: list[Value] = []
    for node, read in enumerate(sources):
        with g.scope(f"node{node}"):
            total = _weighted_sum(g, [results[n] for n in read]) if read else x
            results.append(_node(g, total, channels, 1 if read else 2))
    used = {n for read in sources for n in read}
    sinks = [result for node, result in enumerate(results) if node not in used]
    mean = g.constant(np.array(1 / len(sinks), np.float32), "share")
    total = sinks[0]
    for sink in sinks[1:]:
        total = g.op("Add", total, sink)
    return g.op("Mul", total, mean)


def _weighted_sum(g: GraphBuilder, values: list[Value]) -> Value:
    if len(values) == 1:
        return values[0]
    shares = g.rng.uniform(0.3, 0.7, len(values)).astype(np.float32)
    scaled = [
        g.op("Mul", value, g.constant(np.array(share), "share"))
        for value, share in zip(values, shares, strict=True)
    ]
    total = scaled[0]
    for value in scaled[1:]:
        total = g.op("Add", total, value)
    return total


def _node(g: GraphBuilder, x: Value, channels: int, stride: int) -> Value:
    x = g.op("Relu", x)
    x = g.conv(x, x.shape[1], 3, stride=stride, groups=x.shape[1])
    return g.batch_norm(g.conv(x, channels, 1))
