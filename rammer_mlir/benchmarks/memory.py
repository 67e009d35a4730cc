"""The peak memory of a process."""

from __future__ import annotations

import resource
from pathlib import Path

STATUS = Path("/proc/self/status")


def peak_bytes() -> int:
    """Return the largest resident size of this process so far, in bytes.

    Read from the kernel's high-water mark where there is one: ``ru_maxrss`` starts from the size of
    the parent at the time of the fork, so that the child of a large parent would report the
    parent's size.
    """
    if STATUS.exists():
        for line in STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
