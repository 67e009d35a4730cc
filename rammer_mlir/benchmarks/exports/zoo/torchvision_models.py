"""Define ``torchvision``'s image, video and segmentation models, to be exported to ONNX.

Functions return export entries (``table.Model``). An entry describes how a model is made, its
inputs, and the sizes at which the exported model is run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torchvision.models as zoo
from torch import nn

from rammer_mlir.benchmarks.exports.spec import Input
from rammer_mlir.benchmarks.exports.zoo.table import IMAGES, SIZED_IMAGES, Model, image


class Dense(nn.Module):
    """A wrapper of a dense prediction model; it returns a tuple instead of a dictionary."""

    def __init__(self, model: nn.Module) -> None:
        """Wrap ``model``, a module that returns a dictionary of tensors."""
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Run the model on images ``x``; return the values of its result dictionary, a tuple."""
        return tuple(self.model(x).values())


def _made(name: str, **options: Any) -> Callable[[], nn.Module]:
    return lambda: getattr(zoo, name)(weights=None, **options)


def sized(name: str, **options: Any) -> Model:
    """Return the export entry of torchvision's classifier ``name``, for images of any size.

    ``options`` are arguments of the model's constructor.
    """
    return Model(name, _made(name, **options), image(("height", "width")), SIZED_IMAGES)


def square(name: str, size: int, **options: Any) -> Model:
    """Return the export entry of a torchvision classifier for square images of a fixed size.

    Args:
        name: name of the model in torchvision.
        size: height and width of the images; only the batch size is dynamic.
        options: arguments of the model's constructor.
    """
    return Model(name, _made(name, **options), image(size), IMAGES)


def dense(name: str, **options: Any) -> Model:
    """Return the export entry of torchvision's segmentation model ``name``, for any image size.

    ``options`` are arguments of the model's constructor.
    """
    factory = getattr(zoo.segmentation, name)
    make = lambda: Dense(factory(weights=None, weights_backbone=None, **options))  # noqa: E731
    return Model(name, make, image(("height", "width")), SIZED_IMAGES)


MODELS = (
    sized("resnet18", num_classes=10),
    sized("mobilenet_v3_small", num_classes=10),
    sized("efficientnet_b0", num_classes=10),
    sized("regnet_y_400mf", num_classes=10),
    sized("shufflenet_v2_x0_5", num_classes=10),
    sized("mnasnet0_5", num_classes=10),
    sized("convnext_tiny", num_classes=10),
    sized("densenet121", num_classes=10),
    square("squeezenet1_1", 64, num_classes=10),
    square("googlenet", 64, num_classes=10, aux_logits=False, init_weights=False),
    square("inception_v3", 96, num_classes=10, aux_logits=False, init_weights=False),
    square("swin_t", 64, num_classes=10),
    square("swin_v2_t", 64, num_classes=10),
    square("maxvit_t", 224, num_classes=10),
    dense("lraspp_mobilenet_v3_large", num_classes=5),
    dense("deeplabv3_mobilenet_v3_large", num_classes=5),
    dense("fcn_resnet50", num_classes=5),
    Model(
        "r2plus1d_18",
        lambda: zoo.video.r2plus1d_18(weights=None, num_classes=10),
        (Input("x", ("batch", 3, "frames", 32, 32)),),
        ({"batch": 1, "frames": 4}, {"batch": 2, "frames": 7}),
    ),
)
