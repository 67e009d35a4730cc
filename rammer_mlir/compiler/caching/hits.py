"""Records a cache hit of any level: sets the found program's statistics, and logs the hit."""

from __future__ import annotations

import time

from rammer_mlir.compiler.caching.cache_rows import Entry
from rammer_mlir.runtime.compiled import CompiledModel
from rammer_mlir.support.log import log_cache


def record_hit(executable: CompiledModel, level: str, key: str, entry: Entry, begin: float) -> None:
    """Set the statistics of a program from the cache, and log the hit.

    The statistics are the cache level and the seconds of the lookup.

    Args:
        executable: the program.
        level: level of the cache.
        key: key of the entry.
        entry: the program's entry.
        begin: time of ``time.perf_counter`` when the lookup started, in seconds.
    """
    seconds = time.perf_counter() - begin
    executable.stats["seconds"] = {"cache": seconds}
    executable.stats["cache"] = level
    log_cache(
        f"{level}: hit, entry {key}, {entry.num_bytes} bytes in {seconds:.3f} s instead of "
        f"{entry.seconds:.3f} s"
    )
