"""List the results of the paper "Bring Your Own Codegen", keyed by the name of our model.

- Tables 1 and 2: TensorRT on Jetson AGX Xavier, f32 and f16.
- Table 3: Vitis AI on the U250.
- Table 4: Vitis AI on the Zynq UltraScale+.

Speedups are over TVM without tuning. TVM runs on the Jetson's GPU for TensorRT, on 96 threads of a
server for the U250, and on the Zynq's CPU for the Zynq.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """The paper's results for a model.

    Attributes:
        title: the model's name in the paper.
        nodes: percentage of the model's nodes that TensorRT executes. TensorRT executes all
            multiply-accumulate operations (MACs) of every model.
        jetson: speedup of TensorRT in f32 and in f16.
        merged: number of subgraphs without cost-based partitioning.
        merged_ms: latency without cost-based partitioning, in milliseconds.
        split: number of subgraphs with cost-based partitioning.
        split_ms: latency with cost-based partitioning, in milliseconds.
        u250: speedup on the U250, percentage of nodes offloaded, percentage of MACs offloaded; None
            if the paper omits the model.
        zynq: the same three numbers for the Zynq; None if the paper omits the model.
    """

    title: str
    nodes: int
    jetson: tuple[float, float]
    merged: int
    merged_ms: float
    split: int
    split_ms: float
    u250: tuple[float, int, int] | None
    zynq: tuple[float, int, int] | None


PUBLISHED: dict[str, Published] = {
    "resnet18": Published(
        "ResNet-18", 100, (1.07, 2.06), 1, 4.12, 1, 4.12, (3.91, 96, 99), (34.05, 96, 100)
    ),
    "resnet50": Published(
        "ResNet-50 v1b", 100, (1.53, 3.58), 1, 9.66, 1, 9.66, (4.48, 98, 99), (44.51, 98, 99)
    ),
    "inception_v3": Published(
        "Inception V3", 100, (2.00, 5.30), 1, 16.13, 1, 16.13, (4.14, 99, 99), (77.34, 98, 100)
    ),
    "darknet53": Published(
        "DarkNet-53", 100, (3.73, 8.81), 1, 12.81, 1, 12.81, (5.07, 98, 100), (75.01, 98, 100)
    ),
    "mobilenet_v2": Published(
        "MobileNet V2 1.0", 100, (1.19, 1.78), 1, 3.32, 1, 3.32, None, (19.11, 99, 100)
    ),
    "vgg19": Published(
        "VGG19", 100, (0.92, 2.29), 1, 24.26, 1, 24.26, (5.52, 80, 99), (10.22, 80, 99)
    ),
    "ssd_512_mobilenet": Published(
        "SSD 512 MobileNet 1.0", 36, (2.24, 3.73), 6, 48.13, 1, 18.43, None, (5.47, 28, 100)
    ),
    "ssd_300_resnet34": Published(
        "SSD 300 ResNet-34", 41, (48.44, 108.68), 6, 79.30, 1, 34.31, (2.42, 33, 100),
        (12.7, 34, 100),
    ),
    "faster_rcnn_resnet50_fpn": Published(
        "Faster R-CNN ResNet50 v1b", 63, (6.29, 25.53), 21, 407.15, 2, 404.51, (1.08, 46, 20),
        (1.29, 46, 20),
    ),
}  # fmt: skip

INTEGRATIONS = {
    "TensorRT": 4403,
    "TI Deep Learning": 3085,
    "Arm Ethos-N": 2405,
    "Arm Compute Library": 2188,
    "Vitis AI": 1924,
    "CoreML": 840,
}
"""Lines of code of each code generator's integration in TVM, as the paper counts them."""

INITIALIZATION = (8.0, 62.0)
"""Shortest and longest time in seconds in which TensorRT builds a subgraph's engine."""
