"""PyTorch: modules compiled to callables on tensors, and the back end ``rammer`` of torch.compile.

torch finds the back end by itself where this package is installed.
"""

from __future__ import annotations

from rammer_mlir.pytorch.dynamo import rammer
from rammer_mlir.pytorch.model import TorchModel, compile

__all__ = ["TorchModel", "compile", "rammer"]
