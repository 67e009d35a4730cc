"""vDevices: what a schedule is made for (RAMMER section 3.2)."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from rammer_mlir.errors import OptionError


@dataclass(frozen=True)
class Device:
    """A set of equal virtual execution units.

    Attributes:
        name: the target's name.
        num_veus: number of vEUs.
        flops_per_second: scalar operations per second of one vEU.
        bytes_per_second: bytes per second of one vEU that has the memory to itself.
        total_bytes_per_second: bytes per second of all vEUs together.
        rtask_seconds: fixed cost of starting one rTask.
        barrier_seconds: cost of one barrier-rTask whose waits are already satisfied.
        launch_seconds: cost of starting one rProgram.
        queued_launch_seconds: of starting one that was queued while the one before it ran; 0 if
            that is no cheaper.
        cache_bytes: what a vEU's own cache holds from one rTask to the next; 0 if it has none.
        cache_kept_bytes, cache_lost_bytes: memory is still in that cache for sure if at most the
            first of other memory was used since, and lost for sure from the second on; 0 if
            nobody measured: then ``cache_bytes`` is both.
        max_threads: most threads of one rTask.
        max_shared_memory: most bytes of block-local memory of one rTask.
        is_bulk_synchronous: vEUs synchronise all together only, between rPrograms, each time for
            ``barrier_seconds``; and all that an rTask touches has to be in block-local memory.
    """

    name: str
    num_veus: int
    flops_per_second: float
    bytes_per_second: float
    total_bytes_per_second: float
    rtask_seconds: float
    barrier_seconds: float
    launch_seconds: float
    cache_bytes: int = 0
    cache_kept_bytes: int = 0
    cache_lost_bytes: int = 0
    max_threads: int = 1
    max_shared_memory: int = 0
    is_bulk_synchronous: bool = False
    queued_launch_seconds: float = 0.0

    def __post_init__(self) -> None:
        """Refuse figures that no device has.

        Raises:
            OptionError: if a rate is not positive and finite, or a cost negative or not finite.
        """
        if self.num_veus < 1:
            raise OptionError(f"number of vEUs: expected at least 1, found {self.num_veus}")
        for field in ("flops_per_second", "bytes_per_second", "total_bytes_per_second"):
            if not 0 < getattr(self, field) < inf:
                raise OptionError(self._senseless(field, "a positive, finite number"))
        for field in (
            "rtask_seconds",
            "barrier_seconds",
            "launch_seconds",
            "queued_launch_seconds",
        ):
            if not 0 <= getattr(self, field) < inf:
                raise OptionError(self._senseless(field, "a finite number of at least 0"))

    def start_seconds(self, number: int) -> float:
        """Return the cost of starting a run's rProgram ``number``, counted from 0."""
        if number == 0:
            return self.launch_seconds
        if self.is_bulk_synchronous:
            return self.barrier_seconds
        return self.queued_launch_seconds or self.launch_seconds

    def _senseless(self, field: str, expected: str) -> str:
        found = getattr(self, field)
        return f"device '{self.name}': {field}: expected {expected}, found {found}"
