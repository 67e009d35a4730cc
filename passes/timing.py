"""Wall-clock time per pass."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Timing:
    """Collects seconds by name; a name that is measured again adds up."""

    seconds: dict[str, float] = field(default_factory=dict[str, float])

    @contextmanager
    def measure(self, name: str) -> Generator[None]:
        """Add the wall-clock time of the ``with`` block to ``name``."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    def report(self) -> str:
        """Return one line per name in order of first use, then the total."""
        total = sum(self.seconds.values())
        lines = [
            f"{spent:10.4f} s {spent / total if total else 0.0:7.1%}  {name}"
            for name, spent in self.seconds.items()
        ]
        return "\n".join([*lines, f"{total:10.4f} s  100.0%  total"])
