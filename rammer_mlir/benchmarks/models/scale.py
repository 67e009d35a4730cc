"""Define the two scales at which every benchmark model can be built."""

from typing import Literal

Scale = Literal["full", "small"]
"""Size of a benchmark model.

``full`` is the published size; ``small`` has the same structure with fewer layers, steps and
channels, for tests that should take milliseconds.
"""
