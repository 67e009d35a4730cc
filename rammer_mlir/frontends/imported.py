"""Defines ``ImportedModel``, the result of every front end: IR and weights for the compiler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.programs.signature import Signature

LINALG = "linalg"
"""Name of the compiler stage to which models of other formats than MLIR are imported."""


@dataclass(frozen=True)
class ImportedModel:
    """A model as IR, with the values of its weights.

    Attributes:
        bytecode: MLIR bytecode of a module with one public ``func.func``.
        constants: values of the function's arguments marked ``rtask.constant``, by name.
        signature: inputs and outputs in the model's order.
        stage: the compiler stage of the IR.
        file: for a model in MLIR, the file name that messages show before the line and column of an
            operation. Empty for other formats, where messages show names of nodes.
    """

    bytecode: bytes
    constants: Mapping[str, NDArray[np.generic]]
    signature: Signature
    stage: str = LINALG
    file: str = ""
