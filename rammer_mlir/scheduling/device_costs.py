"""Defines vDevices, the devices that schedules are made for (RAMMER section 3.2)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from rammer_mlir.errors import OptionError


@dataclass(frozen=True)
class Device:
    """A set of identical virtual execution units.

    Attributes:
        name: the name of the device description.
        num_veus: number of vEUs.
        flops_per_second: scalar operations per second of a vEU.
        bytes_per_second: bytes per second of a vEU that has the memory to itself.
        total_bytes_per_second: bytes per second of all vEUs together.
        rtask_seconds: fixed cost of starting an rTask.
        barrier_seconds: cost of a barrier-rTask whose waits are already satisfied.
        launch_seconds: cost of starting an rProgram.
        queued_launch_seconds: cost of starting an rProgram that was queued while its predecessor
            ran; 0 if it is not lower than ``launch_seconds``.
        matrix_rates: pairs of an element type and the operations per second of a vEU by matrix
            instructions on elements of this type.
        cache_bytes: bytes that a vEU's own cache retains between rTasks; 0 if it has no cache.
        cache_kept_bytes, cache_lost_bytes: limits on the bytes of other data that a vEU uses
            between two uses of the same data: up to ``cache_kept_bytes``, the data is certainly
            still in the vEU's cache; from ``cache_lost_bytes`` on, it is certainly evicted. 0 if
            not measured: then both limits are ``cache_bytes``.
        max_threads: most threads of an rTask.
        max_shared_memory: most bytes of block-local memory of an rTask.
        is_bulk_synchronous: vEUs only synchronise all together, between rPrograms, each time for
            ``barrier_seconds``; all data of an rTask has to be in block-local memory.
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
    matrix_rates: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        """Check the number of vEUs, the rates and the costs.

        Raises:
            OptionError: if there is no vEU, a rate is not positive and finite, or a cost is
                negative or not finite.
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

    def rate(self, matrix_element: str) -> float:
        """Return the operations per second of a vEU on an rKernel.

        ``matrix_element`` is the rKernel's field of this name. The rate is that of matrix
        instructions on this type if it is known, otherwise ``flops_per_second``.
        """
        if not matrix_element:
            return self.flops_per_second
        return dict(self.matrix_rates).get(matrix_element, self.flops_per_second)

    def with_rate(self, matrix_element: str) -> Device:
        """Return the device with ``rate(matrix_element)`` as its rate for all rKernels."""
        return replace(self, flops_per_second=self.rate(matrix_element), matrix_rates=())

    def start_seconds(self, number: int) -> float:
        """Return the seconds to start rProgram ``number`` of a run; the first has number 0."""
        if number == 0:
            return self.launch_seconds
        if self.is_bulk_synchronous:
            return self.barrier_seconds
        return self.queued_launch_seconds or self.launch_seconds

    def _senseless(self, field: str, expected: str) -> str:
        found = getattr(self, field)
        return f"device '{self.name}': {field}: expected {expected}, found {found}"
