"""Compiles PyTorch modules by ``compile``, and provides the ``torch.compile`` backend ``rammer``.

``compile`` returns a callable on tensors. If this package is installed, torch finds the backend by
the entry point that the package declares.
"""

from __future__ import annotations

from rammer_mlir.pytorch.dynamo import rammer
from rammer_mlir.pytorch.model import TorchModel, compile

__all__ = ["TorchModel", "compile", "rammer"]
