"""Read the peak memory of this process."""

from __future__ import annotations

import resource
from pathlib import Path

STATUS = Path("/proc/self/status")


def peak_bytes() -> int:
    """Return the largest resident size in bytes that this process has had so far.

    It is read from Linux's high-water mark (``VmHWM``) if the system has it. ``ru_maxrss`` would
    also count the memory that a forked child had in common with its parent.
    """
    if STATUS.exists():
        for line in STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
