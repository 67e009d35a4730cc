"""Vector clocks: what each vEU knows to be complete on every other.

A vEU's clock holds, for each vEU, the number of its rTasks that are known to be complete. It
changes only at barriers, so it is kept once per barrier and looked up by order.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from rammer_mlir.scheduling.graph import Int64Array


class Clocks:
    """The clocks of all vEUs of one rProgram while it is written down."""

    def __init__(self, num_veus: int) -> None:
        """Start with nothing done and nothing known."""
        zero = np.zeros(num_veus, dtype=np.int64)
        self.done = [0] * num_veus
        self._since = [[0] for _ in range(num_veus)]
        self._known = [[zero] for _ in range(num_veus)]

    def now(self, veu: int) -> Int64Array:
        """Return what the vEU knows, except about itself."""
        return self._known[veu][-1]

    def after(self, veu: int, order: int) -> Int64Array:
        """Return what is known to whoever waited for the vEU's rTask ``order``."""
        index = bisect_right(self._since[veu], order) - 1
        clock = self._known[veu][index].copy()
        clock[veu] = order + 1
        return clock

    def wait(self, veu: int, required: Int64Array) -> tuple[tuple[int, int], ...]:
        """Make the vEU wait until ``required[w]`` rTasks of each vEU w are complete.

        Returns the (vEU, order) pairs that are not implied by what is known or by each other.
        """
        known = self.now(veu)
        missing = [int(w) for w in np.nonzero(required > known)[0] if w != veu]
        if not missing:
            return ()
        reached = {w: self.after(w, int(required[w]) - 1) for w in missing}
        kept = _not_implied(missing, required, reached)
        clock = known.copy()
        for w in kept:
            np.maximum(clock, reached[w], out=clock)
        if self._since[veu][-1] == self.done[veu]:
            self._known[veu][-1] = clock
        else:
            self._since[veu].append(self.done[veu])
            self._known[veu].append(clock)
        return tuple((w, int(required[w]) - 1) for w in kept)

    def mark(self) -> tuple[list[int], list[int], list[Int64Array]]:
        """Return a state that ``reset`` goes back to."""
        lengths = [len(since) for since in self._since]
        return list(self.done), lengths, [known[-1] for known in self._known]

    def reset(self, mark: tuple[list[int], list[int], list[Int64Array]]) -> None:
        """Forget everything since ``mark``."""
        done, lengths, last = mark
        self.done = list(done)
        for veu, length in enumerate(lengths):
            del self._since[veu][length:]
            del self._known[veu][length:]
            self._known[veu][-1] = last[veu]


def _not_implied(
    candidates: Sequence[int], required: Int64Array, reached: dict[int, Int64Array]
) -> list[int]:
    """Drop the waits that another wait of the same barrier implies."""
    return [
        w
        for w in candidates
        if not any(other != w and reached[other][w] >= required[w] for other in candidates)
    ]
