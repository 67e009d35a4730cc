"""Shapes and values that a model is specialized for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.programs.dimensions import Shape, Shapes


@dataclass(frozen=True)
class Given:
    """Shapes and values that a model is specialized for.

    Attributes:
        shapes: of inputs with open dimensions.
        values: of inputs that become constants.
        is_repeated: whether the model runs in a loop, so that its inputs differ between runs.
    """

    shapes: Shapes = field(default_factory=dict[str, Shape])
    values: Mapping[str, NDArray[np.generic]] = field(
        default_factory=dict[str, "NDArray[np.generic]"]
    )
    is_repeated: bool = False
