"""Records the outcome of the search for a program under a memory budget."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class MemoryDecision:
    """The way in which a program meets its memory budget: by chunks, recomputation and schedule.

    The budget limits the arena, the memory of all intermediates.

    Attributes:
        budget: bytes that the user allows.
        free_bytes: bytes of the arena without a budget.
        arena_bytes: bytes of the program's arena.
        free_seconds: predicted seconds of a run of the program without a budget.
        seconds: predicted seconds of a run of the program.
        chunks: number of chunks of each chain; 1 for none.
        target: chains are chunked until the peak of intermediates is at most this number of bytes;
            0 chunks all possible chains.
        formed: number of rOperators after fusion.
        in_chunks: number of rOperators after `rtask-pipeline`.
        again: number of rOperators that `rtask-recompute` added.
        is_limited: whether the memory limit applied when the schedule was made.
        tried: number of different programs that the search tried.
    """

    budget: int
    free_bytes: int
    arena_bytes: int
    free_seconds: float
    seconds: float
    chunks: int = 1
    target: int = 0
    formed: int = 0
    in_chunks: int = 0
    again: int = 0
    is_limited: bool = False
    tried: int = 1

    def stats(self) -> dict[str, float]:
        """Return all fields by name, for JSON."""
        return asdict(self)

    @property
    def summary(self) -> str:
        """The decision as a line of the program's summary."""
        budget = f"memory budget    {_mebibytes(self.budget)}: "
        if not self.is_limited:
            return f"{budget}kept without a change"
        done = ["rOperators wait for memory"]
        if self.chunks > 1:
            done.append(f"{self.in_chunks} in {self.chunks} chunks of {self.formed}")
        if self.again:
            done.append(f"{self.again} computed again")
        return (
            f"{budget}{_mebibytes(self.arena_bytes)} instead of {_mebibytes(self.free_bytes)}; "
            f"{', '.join(done)}; predicted {self.seconds * 1e3:.3f} ms instead of "
            f"{self.free_seconds * 1e3:.3f} ms ({self.tried} programs tried)"
        )


def _mebibytes(num_bytes: int) -> str:
    return f"{num_bytes / 2**20:.2f} MiB"
