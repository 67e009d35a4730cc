"""Caches the object code of rKernels, keyed by loop structure and shared by all models.

rKernels with equal loops, shapes and element types are compiled only once for the same processor
(Dali, section 3.3, caches generated kernels by a hash of the expression).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence

from rammer_mlir.compiler.caching.cache_file import CacheFile
from rammer_mlir.compiler.caching.keys import compiler_digest, digest_of
from rammer_mlir.support.log import log_cache

RKERNEL = "rkernel"

_MEMORY_BYTES = 64 << 20
"""Bytes of object code kept in memory besides the file, enough for thousands of rKernels."""


WORTH_SECONDS = 0.2
"""Processor time in seconds from which a batch of rKernels is written to the file."""


class RKernelCache:
    """A cache of the object files of rKernels: in memory, and in the user's cache file if given.

    The key of an object file is the rKernel's identity, a text that is equal for equal code
    (``SeparateKernel.identity``).
    """

    def __init__(self, file: CacheFile | None) -> None:
        """Use ``file`` as the cache file; if it is None, cache object files in memory only."""
        self._file = file
        self._objects: OrderedDict[str, bytes] = OrderedDict()
        self._num_bytes = 0
        self._lock = threading.Lock()

    def find(self, identities: Sequence[str]) -> dict[str, bytes]:
        """Return the cached object files of rKernels, by the identity of the rKernel.

        rKernels that are not in the cache are left out.
        """
        with self._lock:
            found = {each: self._objects[each] for each in identities if each in self._objects}
            for each in found:
                self._objects.move_to_end(each)
        keys = {_key(each): each for each in identities if each not in found}
        if self._file is not None and keys:
            entries = self._file.find_all(RKERNEL, tuple(keys))
            filed = {keys[key]: entry.content for key, entry in entries.items()}
            self._keep_in_memory(filed)
            found |= filed
        log_cache(f"{RKERNEL}: {len(found)} of {len(identities)} rKernels found")
        return found

    def keep(self, objects: Mapping[str, bytes], seconds: float) -> None:
        """Store the object files of rKernels, by the identity of the rKernel.

        ``seconds`` is the total processor time of their compilation. From ``WORTH_SECONDS`` on, the
        object files are stored in memory and in the cache file; below, in memory only.
        """
        self._keep_in_memory(objects)
        if self._file is not None and seconds >= WORTH_SECONDS:
            kept = self._file.keep_all(RKERNEL, {_key(each): o for each, o in objects.items()})
            if kept:
                size = sum(map(len, objects.values()))
                log_cache(f"{RKERNEL}: kept {len(objects)} rKernels, {size} bytes")

    def _keep_in_memory(self, objects: Mapping[str, bytes]) -> None:
        with self._lock:
            for identity, content in objects.items():
                self._num_bytes += len(content) - len(self._objects.pop(identity, b""))
                self._objects[identity] = content
            while self._num_bytes > _MEMORY_BYTES:
                _, oldest = self._objects.popitem(last=False)
                self._num_bytes -= len(oldest)


def _key(identity: str) -> str:
    return digest_of({"rkernel": identity, "compiler": compiler_digest()})
