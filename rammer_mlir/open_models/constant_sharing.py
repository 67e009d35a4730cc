"""Lets several programs share the memory of equal weights."""

from __future__ import annotations

import threading
import weakref

import numpy as np

from rammer_mlir.programs.constants import Bytes, Constants
from rammer_mlir.runtime.compiled import CompiledModel
from rammer_mlir.runtime.shared_weights import digest, each_weight
from rammer_mlir.support.aligned import aligned_bytes


class ConstantStore:
    """Weights of several programs, indexed by the hash of a weight's content.

    A weight is dropped when no program uses it any longer.
    """

    def __init__(self) -> None:
        """Begin without weights."""
        self._parts: weakref.WeakValueDictionary[bytes, Bytes] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()

    def share(self, model: CompiledModel) -> None:
        """Make a program use the store's copy of each weight that the store already has.

        The program's other weights are added to the store. Equal weights of all programs given to
        this method are therefore in memory once. The program must not have run yet. The weights of
        the program's fallback (the same model without foreign code) are shared too.
        """
        if model.fallback is not None:
            self.share(model.fallback)
        weights = each_weight(model.image.constants, model.image.proof)
        model.use_constants(self._shared(weights))

    def _shared(self, constants: Constants) -> Constants:
        digests = [digest(part) for part in constants.parts]
        with self._lock:
            known = [self._parts.get(name) for name in digests]
            # A view keeps its whole memory block alive, so copy parts if others are shared already;
            # a mapped file takes no memory.
            copies = any(part is not None for part in known)
            parts: list[Bytes] = []
            for name, given in zip(digests, constants.parts, strict=True):
                part = self._parts.get(name)
                if part is None:
                    is_file = isinstance(given, np.memmap)
                    part = _copied(given) if copies and not is_file else given
                    self._parts[name] = part
                parts.append(part)
        return Constants(tuple(parts))


def _copied(part: Bytes) -> Bytes:
    copy = aligned_bytes(part.nbytes)
    copy[:] = part
    return copy
