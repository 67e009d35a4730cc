"""Define detectors of ``torchvision``; the number of detected boxes depends on the image."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torchvision.models.detection as zoo
from torch import nn

from rammer_mlir.benchmarks.exports.spec import Input
from rammer_mlir.benchmarks.exports.zoo.native_operators import use_operators
from rammer_mlir.benchmarks.exports.zoo.table import Model

_SIZE = 320


class Detector(nn.Module):
    """A wrapper of a torchvision detector with a single image as input and a tuple as result.

    The wrapped detector takes a list of images, and returns dictionaries.
    """

    def __init__(self, model: nn.Module) -> None:
        """Wrap ``model``, a detector of torchvision."""
        super().__init__()
        self.model = model

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the detections in one image [C, H, W]: boxes, labels and scores."""
        return tuple(self.model([image])[0].values())


def _settled(model: nn.Module) -> nn.Module:
    """Return a wrapper of the detector ``model`` for inference, with a single image as input.

    The running statistics of the detector's batch norms are set to those of random images. With
    these statistics, a detector with random weights finds boxes.
    """
    use_operators()
    model.eval()
    norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = 1.0
        norm.train()
    with torch.no_grad():
        model([torch.rand(3, _SIZE, _SIZE) for _ in range(2)])
    return Detector(model.eval())


def detector(name: str, **options: Any) -> Model:
    """Return torchvision's detector ``name`` with random weights.

    ``options`` are the arguments of the torchvision function that makes the detector.
    """
    factory = getattr(zoo, name)
    make: Callable[[], nn.Module] = lambda: _settled(  # noqa: E731
        factory(weights=None, weights_backbone=None, **options)
    )
    image = (Input("image", (3, _SIZE, _SIZE), "uniform"),)
    return Model(name, make, image, ({},), exporters=("torchscript",))


MODELS = (
    detector("ssdlite320_mobilenet_v3_large", score_thresh=0.1, detections_per_img=100),
    detector("fasterrcnn_mobilenet_v3_large_320_fpn", box_score_thresh=0.02),
)
