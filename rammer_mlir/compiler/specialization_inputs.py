"""Defines the shapes and values that a model is specialized for."""

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
        shapes: the static shapes of the inputs with open dimensions, by the input's name.
        values: the values of the inputs that become constants, by the input's name.
        is_repeated: whether the model is the body of a loop, or within the body of a loop.
    """

    shapes: Shapes = field(default_factory=dict[str, Shape])
    values: Mapping[str, NDArray[np.generic]] = field(
        default_factory=dict[str, "NDArray[np.generic]"]
    )
    is_repeated: bool = False
