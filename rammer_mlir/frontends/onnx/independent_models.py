"""Combines independent models into a single model, in which they share the vEUs.

This is the RAMMER paper's inter-job scheduling.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING

import onnx
from google.protobuf.message import DecodeError
from onnx import compose, version_converter

from rammer_mlir.errors import ModelError
from rammer_mlir.frontends.onnx.model import first_line
from rammer_mlir.frontends.onnx.source_folders import ModelWithData, PlainSource
from rammer_mlir.frontends.onnx.sources import source_of

if TYPE_CHECKING:
    from rammer_mlir.frontends.onnx.sources import GivenModel


def together(models: Mapping[str, GivenModel]) -> onnx.ModelProto:
    """Return a model that contains several independent models.

    Args:
        models: at least one model, by name; the input or output ``x`` of model ``a`` becomes
            ``a/x``. Open dimensions of the same name have the same size in all models.

    Raises:
        ModelError: if there is no model, if a name is empty, if a model cannot be converted to the
            newest opset of any of the models, or if the models are too large together.
    """
    if not models or not all(models):
        raise ModelError(f"together: expected models by name, found {sorted(models)}")
    loaded = {name: _loaded(name, source_of(given)) for name, given in models.items()}
    newest = max(map(_opset, loaded.values()))
    named = [_named(name, _converted(name, model, newest)) for name, model in loaded.items()]
    try:
        return reduce(lambda one, other: compose.merge_models(one, other, io_map=[]), named)
    except (ValueError, TypeError, RuntimeError) as error:
        names = ", ".join(loaded)
        raise ModelError(f"together: {names}: {first_line(error)}") from None


def _loaded(name: str, source: PlainSource) -> onnx.ModelProto:
    if isinstance(source, onnx.ModelProto):
        return source
    if isinstance(source, ModelWithData):
        return source.whole()
    try:
        return onnx.load_from_string(source) if isinstance(source, bytes) else onnx.load(source)
    except (OSError, ValueError, RuntimeError, DecodeError) as error:
        raise ModelError(f"{name}: cannot be read: {first_line(error)}") from None


def _opset(model: onnx.ModelProto) -> int:
    return max((s.version for s in model.opset_import if s.domain in ("", "ai.onnx")), default=1)


def _converted(name: str, model: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    if _opset(model) == opset:
        return model
    try:
        return version_converter.convert_version(model, opset)
    except (RuntimeError, ValueError) as error:
        raise ModelError(
            f"{name}: expected operators of opset {opset}, as in another model, found opset "
            f"{_opset(model)}, which cannot be converted: {first_line(error)}; export it anew"
        ) from None


def _named(name: str, model: onnx.ModelProto) -> onnx.ModelProto:
    renamed = compose.add_prefix(model, f"{name}/")
    renamed.ir_version = max(renamed.ir_version, onnx.IR_VERSION)  # merged models must agree
    return renamed
