"""Read the peak memory of this process."""

from __future__ import annotations

import resource
from pathlib import Path

STATUS = Path("/proc/self/status")


def peak_bytes() -> int:
    """Return the peak resident memory of this process in bytes.

    The value is Linux's high-water mark (``VmHWM``) if the system has it, else ``ru_maxrss``, which
    also counts the memory that a forked child shared with its parent.
    """
    if STATUS.exists():
        for line in STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
