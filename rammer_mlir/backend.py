"""The ONNX backend interface (``onnx.backend.base``), so that ONNX's own tools can drive us."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep

import rammer_mlir
from rammer_mlir.errors import RammerError
from rammer_mlir.runtime.executable import Executable


class RammerRep(BackendRep):
    """A compiled model behind the interface that ONNX's tools expect."""

    def __init__(self, executable: Executable) -> None:
        self._executable = executable

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Run on a sequence of arrays in the model's order, one array, or a mapping by name."""
        specs = self._executable.signature.inputs
        if isinstance(inputs, Mapping):
            feeds = dict(inputs)
        elif isinstance(inputs, Sequence):
            feeds = {spec.name: value for spec, value in zip(specs, inputs, strict=True)}
        else:
            feeds = {specs[0].name: inputs}
        arrays = {name: np.asarray(value) for name, value in feeds.items()}
        outputs = self._executable.run(arrays)
        return tuple(outputs[spec.name] for spec in self._executable.signature.outputs)


class RammerBackend(Backend):
    """Compiles ONNX models for this machine's CPU."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Return whether the model can be compiled."""
        try:
            cls.prepare(model, device, **kwargs)
        except RammerError:
            return False
        return True

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> RammerRep:
        """Compile a model.

        Raises:
            RammerError: if it cannot be compiled.
        """
        super().prepare(model, device, **kwargs)
        return RammerRep(rammer_mlir.compile(model, **kwargs))

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Return whether programs can be run on the device."""
        return device.split(":")[0] == "CPU"


is_compatible = RammerBackend.is_compatible
prepare = RammerBackend.prepare
run = RammerBackend.run_model
run_model = RammerBackend.run_model
run_node = RammerBackend.run_node
supports_device = RammerBackend.supports_device
