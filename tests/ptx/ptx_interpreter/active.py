"""The threads of a block that execute an instruction together."""

from __future__ import annotations

import numpy as np

from .arrays import Integers, Mask


class Active:
    """A set of threads, as masks and as indices.

    Attributes:
        mask: which threads.
        where: the mask for ufuncs, or True for all threads.
        lanes: indices into arrays over threads; a slice for all.
        threads: numbers of the threads.
    """

    def __init__(self, mask: Mask) -> None:
        """Look at a mask once."""
        self.mask = mask
        self.threads: Integers = np.flatnonzero(mask)
        self.is_all = len(self.threads) == len(mask)
        self.where: Mask | bool = True if self.is_all else mask
        self.lanes: Integers | slice = slice(None) if self.is_all else self.threads

    def only(self, mask: Mask) -> Active:
        """Return those of them that are in another mask, too."""
        return Active(self.mask & mask)
