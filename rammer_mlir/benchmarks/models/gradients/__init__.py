"""Build training steps by reverse-mode differentiation of ONNX graphs.

Other tools compute gradients too. ONNX Runtime's training builds are a package that replaces the
plain package. PyTorch exports joint graphs of its own operators, and JAX exports StableHLO; both
would add gigabytes to an installation that is meant to stay small. ONNX's preview of a ``Gradient``
operator has no implementation. The models here use some fifty operators, and a rule for each needs
less code than any of these. The rules are compared with finite differences, and the gradients of
whole models with PyTorch's.
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
