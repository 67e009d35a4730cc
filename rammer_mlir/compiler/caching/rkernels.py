"""The level of rKernels: object code by the structure of the loops, whatever model they are of.

An rKernel of equal loops, shapes and element types is compiled once for a processor, in whichever
program it is met first (Dali, section 3.3, keeps generated kernels by a hash of their expression).
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
"""Object code that is kept in memory, besides the file: some thousand rKernels."""


WORTH_SECONDS = 0.2
"""Of processor time: rKernels that take less together are not worth a transaction."""


class RKernelCache:
    """Objects of rKernels by identity, in memory and in the user's file if there is one."""

    def __init__(self, file: CacheFile | None) -> None:
        """Begin with those of the file."""
        self._file = file
        self._objects: OrderedDict[str, bytes] = OrderedDict()
        self._num_bytes = 0
        self._lock = threading.Lock()

    def find(self, identities: Sequence[str]) -> dict[str, bytes]:
        """Return the objects of rKernels, as far as they are kept."""
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
        """Keep the objects of rKernels that took some seconds of processor time together."""
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
