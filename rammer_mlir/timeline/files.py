"""Writes timelines to files, as a page or a trace depending on the file's extension."""

from __future__ import annotations

import os
from collections.abc import Sequence

from rammer_mlir.support.atomic_file import write_atomically
from rammer_mlir.support.paths import path_of
from rammer_mlir.timeline.page import page
from rammer_mlir.timeline.spans import Timeline
from rammer_mlir.timeline.trace_events import trace_events


def write_timelines(
    path: str | os.PathLike[str], timelines: Sequence[Timeline], explanation: str = ""
) -> None:
    """Write timelines with a common time axis to an HTML page or a Chrome trace.

    Args:
        path: path of the file; a page if it ends in ``.html`` or ``.htm``, else a trace.
        timelines: timelines to write.
        explanation: text that a page shows below the timelines; a trace omits it.

    Raises:
        ArtifactError: if the file cannot be written.
        OptionError: if ``path`` is not a valid path.
    """
    path = path_of(path, "timeline")
    is_page = path.suffix.lower() in (".html", ".htm")
    content = page(timelines, explanation) if is_page else trace_events(timelines)
    write_atomically(path, content)
