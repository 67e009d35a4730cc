"""Define image classifiers of ``timm``, to be exported to ONNX.

Functions return export entries (``table.Model``). An entry describes how a model is made, its
inputs, and the sizes at which the exported model is run.
"""

from __future__ import annotations

from typing import Any

import timm

from rammer_mlir.benchmarks.exports.zoo.table import IMAGES, SIZED_IMAGES, Model, image


def sized(name: str) -> Model:
    """Return the export entry of timm's classifier ``name``, for images of any size."""
    return Model(f"timm_{name}", _made(name), image(("height", "width")), SIZED_IMAGES)


def square(name: str, size: int = 64, **options: Any) -> Model:
    """Return the export entry of timm's classifier ``name``, for square images of a fixed size.

    ``size`` is the height and width; ``options`` are arguments of the model's constructor.
    """
    return Model(f"timm_{name}", _made(name, **options), image(size), IMAGES)


def _made(name: str, **options: Any) -> Any:
    return lambda: timm.create_model(name, pretrained=False, num_classes=10, **options)


MODELS = (
    sized("mobilenetv3_small_050"),
    sized("mobilenetv4_conv_small_035"),
    sized("convnextv2_atto"),
    sized("regnetx_002"),
    sized("ghostnet_050"),
    sized("edgenext_xx_small"),
    sized("repvit_m0_9"),
    sized("hrnet_w18_small"),
    sized("tf_efficientnet_b0"),
    sized("eca_nfnet_l0"),
    sized("res2net50_14w_8s"),
    square("mixer_s32_224", img_size=64),
    square("tiny_vit_5m_224", img_size=64),
    square("efficientformerv2_s0", 224),
    square("xcit_nano_12_p16_224", img_size=64),
    square("coatnet_0_rw_224", img_size=64),
    square("vit_tiny_patch16_224", img_size=64),
    square("eva02_tiny_patch14_224", 56, img_size=56),
    square("gmlp_ti16_224", img_size=64),
    square("botnet26t_256", 128, img_size=128),
)
