"""Compiles PyTorch modules by ``compile``, and functions by ``torch.compile``'s backend ``rammer``.

``compile`` returns a callable on tensors. torch finds the backend by its entry point if this
package is installed.
"""

from __future__ import annotations

from rammer_mlir.pytorch.dynamo import rammer
from rammer_mlir.pytorch.model import TorchModel, compile

__all__ = ["TorchModel", "compile", "rammer"]
