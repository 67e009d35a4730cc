"""Define Python versions of the operators of torchvision's native library.

Without the native library, as in PyTorch's CPU wheel, torchvision cannot import its operators. This
module declares all these operators. It implements only ``nms`` and ``roi_align``, which detectors
call while the exporter traces them.
"""

from __future__ import annotations

import importlib

import torch
from torch.library import Library

_LIBRARY = Library("torchvision", "DEF")

_SCHEMAS = {
    "nms": "Tensor dets, Tensor scores, float iou_threshold",
    "roi_align": "Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width, int sampling_ratio, bool aligned",
}

_UNUSED = ("qnms", "deform_conv2d", "roi_pool", "ps_roi_align", "ps_roi_pool")


def _nms(boxes: torch.Tensor, scores: torch.Tensor, overlap: float) -> torch.Tensor:
    """Return the indices of the boxes that non-maximum suppression keeps, highest score first.

    The intersection over union of two kept boxes is at most ``overlap``.
    """
    order = torch.argsort(scores, descending=True, stable=True)
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(-1)
    kept: list[torch.Tensor] = []
    while order.numel():
        best, order = order[0], order[1:]
        kept.append(best)
        low = torch.maximum(boxes[best, :2], boxes[order, :2])
        high = torch.minimum(boxes[best, 2:], boxes[order, 2:])
        common = (high - low).clamp(min=0).prod(-1)
        order = order[common <= overlap * (areas[best] + areas[order] - common)]
    return torch.stack(kept) if kept else torch.zeros(0, dtype=torch.int64)


def _roi_align(
    features: torch.Tensor,
    boxes: torch.Tensor,
    scale: float,
    height: int,
    width: int,
    samples: int,
    aligned: bool,
) -> torch.Tensor:
    """Return zeros [boxes, channels, height, width]; tracing needs only the result's shape."""
    del scale, samples, aligned
    return features.new_zeros(boxes.shape[0], features.shape[1], height, width)


def define_operators() -> None:
    """Declare the operators of torchvision's native library.

    Call this function before torchvision is imported.
    """
    for name, arguments in _SCHEMAS.items():
        _LIBRARY.define(f"{name}({arguments}) -> Tensor")
    for name in _UNUSED:
        _LIBRARY.define(f"{name}(Tensor x) -> Tensor")
    for name in (*_SCHEMAS, *_UNUSED):
        _LIBRARY.define(f"_{name}_backward(Tensor x) -> Tensor")
    _LIBRARY.impl("nms", _nms, "CPU")
    _LIBRARY.impl("roi_align", _roi_align, "CPU")


def _has_ops() -> bool:
    return True


def use_operators() -> None:
    """Import torchvision, and let it call the operators that ``define_operators`` declared.

    Also register torchvision's ONNX exporters of these operators.
    """
    importlib.import_module("torchvision.extension")._has_ops = _has_ops
    # The package has a function of the same name as this module.
    importlib.import_module("torchvision.ops.roi_align")._has_ops = _has_ops
    importlib.import_module("torchvision.ops._register_onnx_ops")._register_custom_op()
