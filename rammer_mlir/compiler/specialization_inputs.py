"""What a specialisation of a model is compiled for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.programs.dimensions import Shape, Shapes


@dataclass(frozen=True)
class Given:
    """What a specialisation of a model is compiled for.

    Attributes:
        shapes: of inputs whose dimensions the model leaves open.
        values: of inputs that become constants.
        is_repeated: whether it is repeated, so that its inputs differ from run to run.
    """

    shapes: Shapes = field(default_factory=dict[str, Shape])
    values: Mapping[str, NDArray[np.generic]] = field(
        default_factory=dict[str, "NDArray[np.generic]"]
    )
    is_repeated: bool = False
