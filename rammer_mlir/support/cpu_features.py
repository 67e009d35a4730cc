"""Finds the instruction set extensions of this machine's processor, by their names in Linux."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")

_RELEVANT = (
    *("avx", "fma", "f16c", "bmi", "sse", "ssse", "popcnt", "abm", "movbe", "amx", "gfni"),
    *("asimd", "sve", "i8mm", "bf16", "atomics", "fphp"),
)
"""Prefixes of the names of instruction sets that code generators use, on x86-64 and AArch64.

Those for cryptography, checksums and long integers are left out: no kernel needs them, and a
processor without them may run the code.
"""


@cache
def cpu_features() -> tuple[str, ...]:
    """Return Linux's names of the instruction sets that generated code may use on this machine.

    The result is empty if the system does not list the instruction sets.
    """
    try:
        text = _CPUINFO.read_text()
    except OSError:
        return ()
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return tuple(sorted(f for f in value.split() if f.startswith(_RELEVANT)))
    return ()
