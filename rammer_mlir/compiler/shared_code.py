"""Reuses code between programs that differ only in weights and names."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Generic, TypeVar

from rammer_mlir.lowering.cpu.kernel_objects import ObjectStore

_Code = TypeVar("_Code")

_MOST_OBJECTS = 16
"""Number of objects kept: equal parts of a model, such as its layers, are close together."""


class KnownCode(Generic[_Code]):
    """A small least-recently-used cache of object files or GPU kernels, by their code's digest."""

    def __init__(self) -> None:
        """Begin with an empty cache."""
        self._objects: OrderedDict[bytes, _Code] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, identity: bytes) -> _Code | None:
        """Return the object files or kernel stored under the code digest ``identity``, or None."""
        with self._lock:
            if identity in self._objects:
                self._objects.move_to_end(identity)
            return self._objects.get(identity)

    def keep(self, identity: bytes, binary: _Code) -> None:
        """Store the object files or kernel whose code has the digest ``identity``.

        If there are more than ``_MOST_OBJECTS`` entries, the least recently used entry is evicted.
        """
        with self._lock:
            self._objects[identity] = binary
            if len(self._objects) > _MOST_OBJECTS:
                self._objects.popitem(last=False)


@dataclass(frozen=True)
class KnownObjects:
    """Object files of other CPU programs, reused for equal code.

    Attributes:
        programs: maps the digest of a program's code to the program's object files: first the main
            object, then the rKernels' objects. None to reuse only objects of single rKernels.
        rkernels: the store of objects of single rKernels; None to compile every rKernel.
    """

    programs: KnownCode[tuple[bytes, ...]] | None = None
    rkernels: ObjectStore | None = None


NOTHING_KNOWN = KnownObjects()
