"""Build training steps by reverse-mode differentiation of ONNX graphs.

Other tools compute gradients too, but do not fit here:

- ONNX Runtime's training builds are a package that replaces the plain package.
- PyTorch exports joint graphs of its own operators, and JAX exports StableHLO. Both would add
  gigabytes to an installation that is meant to stay small.
- ONNX's preview of a ``Gradient`` operator has no implementation.

The models use about fifty operators. A gradient rule for each operator needs less code than the
use of one of these tools. Tests compare the rules with finite differences, and the gradients of
whole models with PyTorch's gradients.
"""

from rammer_mlir.benchmarks.models.gradients.training import (
    GRADIENT,
    UPDATED,
    TrainingStep,
    in_double,
    trained_weights,
    training_step,
)

__all__ = [
    "GRADIENT",
    "UPDATED",
    "TrainingStep",
    "in_double",
    "trained_weights",
    "training_step",
]
