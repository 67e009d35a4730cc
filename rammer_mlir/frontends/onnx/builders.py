"""Own builders: ONNX operators whose imported form is wrong, slow or missing.

A node with a builder is replaced by a call of a private function before torch-mlir's lowering; when
that has turned all types into builtin tensors, the builder emits the function's body in linalg.
"""

from __future__ import annotations

from typing import Any

Calls = dict[str, Any]
"""By the name of the private function: the node's operator and attributes."""


def replace_by_calls(ir: Any, module: Any) -> Calls:
    """Replace nodes that have a builder by calls of private functions."""
    return {}


def build_bodies(module: Any, calls: Calls) -> None:
    """Give every private function that stands for a node its body."""
