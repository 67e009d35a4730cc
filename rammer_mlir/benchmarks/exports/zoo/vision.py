"""Define ``transformers`` models for images, and for images with text, to be exported to ONNX.

Functions return export entries (``table.Model``). An entry describes how a model is made, its
inputs, and the sizes at which the exported model is run.
"""

from __future__ import annotations

from typing import Any

from rammer_mlir.benchmarks.exports.spec import Input
from rammer_mlir.benchmarks.exports.zoo.table import IMAGES, SIZED_IMAGES, Model, image, tokens
from rammer_mlir.benchmarks.exports.zoo.text import wrapped

SQUARE = {"image_size": 64, "patch_size": 16, "num_labels": 10}
STAGES = {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 24, 32], "num_labels": 10}


def images(kind: str, model: str = "", size: int = 64, **changes: Any) -> Model:
    """Return the export entry of a transformers model for square images of a fixed size.

    Only the batch size is open.

    Args:
        kind: prefix of transformers' classes, such as ViT.
        model: name of the model's class; if empty, ``kind`` + ``ForImageClassification``.
        size: height and width in pixels.
        changes: values of configuration fields, by name.
    """
    make = wrapped(model or f"{kind}ForImageClassification", kind, ("pixel_values",), {}, **changes)
    return Model(kind.lower(), make, image(size), IMAGES)


def open_images(kind: str, model: str = "", **changes: Any) -> Model:
    """Return the export entry of a transformers model for images of any size.

    The arguments have the same meaning as in ``images``.
    """
    make = wrapped(model or f"{kind}ForImageClassification", kind, ("pixel_values",), {}, **changes)
    return Model(kind.lower(), make, image(("height", "width")), SIZED_IMAGES)


CLIP_TEXT = {
    "vocab_size": 100,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 80,
    "eos_token_id": 99,
    "bos_token_id": 98,
    "pad_token_id": 0,
}
CLIP_VISION = {**CLIP_TEXT, "image_size": 64, "patch_size": 16}
DETR = {
    "use_timm_backbone": False,
    "use_pretrained_backbone": False,
    "backbone": None,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "num_queries": 10,
}


def _clip(kind: str) -> Model:
    inputs = (*tokens(), Input("x", ("images", 3, 64, 64)))
    names = ("input_ids", "attention_mask", "pixel_values")
    cases = tuple({"batch": 1 + i, "length": n, "images": 3 - i} for i, n in enumerate((1, 7, 64)))
    text, vision = CLIP_TEXT, CLIP_VISION
    changes = {"text_config": text, "vision_config": vision, "projection_dim": 16}
    return Model(kind.lower(), wrapped(f"{kind}Model", kind, names, {}, **changes), inputs, cases)


def _detr() -> Any:
    from transformers import ResNetConfig

    backbone = ResNetConfig(
        embedding_size=8, **{**STAGES, "layer_type": "basic"}, out_features=["stage4"]
    )
    return wrapped(
        "DetrForObjectDetection",
        "Detr",
        ("pixel_values",),
        {},
        **{**DETR, "backbone_config": backbone},
    )()


MODELS = (
    images("ViT", **SQUARE),
    images("DeiT", **SQUARE),
    images("Beit", **SQUARE, use_relative_position_bias=True),
    images(
        "Swin",
        **{**SQUARE, "patch_size": 4},
        embed_dim=8,
        depths=[2, 2],
        num_heads=[2, 4],
        window_size=4,
    ),
    images(
        "Swinv2",
        **{**SQUARE, "patch_size": 4},
        embed_dim=8,
        depths=[2, 2],
        num_heads=[2, 4],
        window_size=4,
    ),
    open_images("Dinov2", **SQUARE),
    open_images("ConvNext", **STAGES, num_stages=4),
    open_images("ConvNextV2", **STAGES, num_stages=4),
    open_images("ResNet", **STAGES, embedding_size=8),
    open_images("RegNet", **STAGES, embedding_size=8, groups_width=8),
    open_images("MobileNetV2", depth_multiplier=0.35),
    open_images("EfficientNet", width_coefficient=0.25, depth_coefficient=0.3, hidden_dim=320),
    open_images(
        "Segformer",
        model="SegformerForSemanticSegmentation",
        **STAGES,
        num_attention_heads=[1, 2, 2, 4],
        decoder_hidden_size=16,
    ),
    images(
        "MobileViT",
        image_size=64,
        hidden_sizes=[16, 24, 32],
        neck_hidden_sizes=[8, 8, 16, 24, 32, 40, 48],
    ),
    images(
        "Yolos",
        model="YolosForObjectDetection",
        **{**SQUARE, "image_size": [64, 64]},
        num_detection_tokens=5,
    ),
    images("PoolFormer", depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 24, 32]),
    images(
        "Levit",
        image_size=64,
        hidden_sizes=[16, 24, 32],
        num_attention_heads=[2, 3, 4],
        depths=[1, 1, 1],
        key_dim=[8, 8, 8],
    ),
    images("Cvt", embed_dim=[8, 16, 24], num_heads=[1, 2, 3], depth=[1, 1, 1]),
    _clip("CLIP"),
    Model("detr", _detr, image(("height", "width")), SIZED_IMAGES),
)
