"""Code of programs that differ in their weights and names alone, compiled once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Generic, TypeVar

from rammer_mlir.lowering.cpu.kernel_objects import ObjectStore

_Code = TypeVar("_Code")

_MOST_OBJECTS = 16
"""Objects that are kept: equal parts of a model follow each other, as its layers do."""


class KnownCode(Generic[_Code]):
    """Objects, or kernels, of programs that were compiled before, by what identifies their code."""

    def __init__(self) -> None:
        """Begin without any."""
        self._objects: OrderedDict[bytes, _Code] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, identity: bytes) -> _Code | None:
        """Return the object of equal code, None if there is none."""
        with self._lock:
            if identity in self._objects:
                self._objects.move_to_end(identity)
            return self._objects.get(identity)

    def keep(self, identity: bytes, binary: _Code) -> None:
        """Keep an object, and forget the one that was not used for longest."""
        with self._lock:
            self._objects[identity] = binary
            if len(self._objects) > _MOST_OBJECTS:
                self._objects.popitem(last=False)


@dataclass(frozen=True)
class KnownObjects:
    """Objects of other programs for CPUs, which programs of equal code take.

    Attributes:
        programs: by the identity of a program's whole code: the program's own object first, then
            those of its rKernels.
        rkernels: of single rKernels.
    """

    programs: KnownCode[tuple[bytes, ...]] | None = None
    rkernels: ObjectStore | None = None


NOTHING_KNOWN = KnownObjects()
