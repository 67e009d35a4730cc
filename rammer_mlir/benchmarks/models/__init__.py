"""Build published networks and small models as ONNX, with random weights from seeds."""

from rammer_mlir.benchmarks.models.feeds import random_feeds
from rammer_mlir.benchmarks.models.registry import (
    ALL_MODELS,
    DETECTORS,
    LIGHT,
    MODELS,
    OWN,
    TABLE_1,
    Model,
    build,
)
from rammer_mlir.benchmarks.models.scale import Scale

__all__ = [
    "ALL_MODELS",
    "DETECTORS",
    "LIGHT",
    "MODELS",
    "OWN",
    "TABLE_1",
    "Model",
    "Scale",
    "build",
    "random_feeds",
]
