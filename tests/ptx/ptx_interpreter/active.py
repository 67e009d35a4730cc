"""Sets of threads of a block that execute an instruction together."""

from __future__ import annotations

import numpy as np

from .arrays import Integers, Mask


class Active:
    """A set of threads of a block, as a mask and as indices.

    Attributes:
        mask: a bool for each thread of the block.
        where: the mask as NumPy's ufuncs take it, or True for all threads.
        lanes: an index into arrays over the block's threads; a slice for all threads.
        threads: indices of the threads in the set.
    """

    def __init__(self, mask: Mask) -> None:
        """Compute the other forms of the set from ``mask``."""
        self.mask = mask
        self.threads: Integers = np.flatnonzero(mask)
        self.is_all = len(self.threads) == len(mask)
        self.where: Mask | bool = True if self.is_all else mask
        self.lanes: Integers | slice = slice(None) if self.is_all else self.threads

    def only(self, mask: Mask) -> Active:
        """Return the threads of the set that are in ``mask``, too."""
        return Active(self.mask & mask)
