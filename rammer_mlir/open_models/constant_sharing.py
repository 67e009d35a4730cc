"""Equal weights of several programs, kept in memory once."""

from __future__ import annotations

import threading
import weakref

import numpy as np

from rammer_mlir.programs.constants import Bytes, Constants
from rammer_mlir.runtime.compiled import CompiledModel
from rammer_mlir.runtime.shared_weights import digest, each_weight
from rammer_mlir.support.aligned import aligned_bytes


class ConstantStore:
    """The weights of several programs, by content, as long as a program uses them."""

    def __init__(self) -> None:
        """Begin without any."""
        self._parts: weakref.WeakValueDictionary[bytes, Bytes] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()

    def share(self, model: CompiledModel) -> None:
        """Let a program, before its first run, use the memory of equal weights of other ones.

        What runs in its place where it cannot shares them too.
        """
        if model.fallback is not None:
            self.share(model.fallback)
        weights = each_weight(model.image.constants, model.image.proof)
        model.use_constants(self._shared(weights))

    def _shared(self, constants: Constants) -> Constants:
        digests = [digest(part) for part in constants.parts]
        with self._lock:
            known = [self._parts.get(name) for name in digests]
            # A view would keep the whole piece that it is of, of which a file's takes no memory.
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
