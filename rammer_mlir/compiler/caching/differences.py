"""Differences between a missing key and the key of the nearest entry, for log messages."""

from __future__ import annotations

from rammer_mlir.compiler.caching.cache_file import CacheFile, Parts


def difference(file: CacheFile, level: str, parts: Parts | None) -> str:
    """Return a clause for messages: the names of key parts that differ in the nearest entry.

    Empty if ``parts`` is None, the level has no entry, or no part differs.
    """
    nearest = None if parts is None else file.nearest(level, parts)
    if parts is None or nearest is None:
        return ""
    differing = [name for name in parts if nearest.get(name) != parts[name]]
    return f"; the nearest entry differs in {', '.join(differing)}" if differing else ""
