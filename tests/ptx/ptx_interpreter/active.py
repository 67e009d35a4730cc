"""Sets of threads of a block that execute an instruction together."""

from __future__ import annotations

import numpy as np

from .arrays import Integers, Mask


class Active:
    """A set of threads of a block, in several forms.

    Attributes:
        mask: a bool for each thread of the block.
        where: the argument ``where`` for NumPy's ufuncs: the mask, or True for all threads.
        lanes: the index that selects the set from arrays over the block's threads: the indices of
            the threads, or a slice for all threads.
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
