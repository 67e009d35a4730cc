"""Tells how a key that the cache lacks differs from the most similar key, for log messages."""

from __future__ import annotations

import logging

from rammer_mlir.compiler.caching.cache_file import CacheFile, Parts
from rammer_mlir.compiler.caching.keys import DECIDED, OPTION
from rammer_mlir.support.log import LOGGER


def difference(file: CacheFile, level: str, parts: Parts | None) -> str:
    """Return a clause for a log message: which key components differ in the most similar entry.

    The result is empty if ``parts`` is None, the level has no entry, no component differs, or
    logging is disabled.
    """
    if not LOGGER.isEnabledFor(logging.INFO):  # reading the entries takes a millisecond
        return ""
    nearest = None if parts is None else file.nearest(level, parts)
    if parts is None or nearest is None:
        return ""
    differing = [name for name in parts if nearest.get(name) != parts[name]]
    options = {name.removeprefix(OPTION) for name in differing if name.startswith(OPTION)}
    # A decided value has the name of the option that it follows from; a changed option is enough.
    differing = [name for name in differing if name.removeprefix(DECIDED) not in options]
    return f"; the nearest entry differs in {', '.join(differing)}" if differing else ""
