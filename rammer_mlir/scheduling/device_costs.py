"""Defines vDevices, the devices that schedules are made for (RAMMER section 3.2)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from rammer_mlir.errors import OptionError


@dataclass(frozen=True)
class Device:
    """A set of identical virtual execution units (vEUs), with costs in seconds.

    Attributes:
        name: the name of the device description.
        num_veus: number of vEUs.
        flops_per_second: scalar operations per second of a vEU.
        bytes_per_second: memory bandwidth of a vEU, in bytes per second, while all other vEUs are
            idle.
        total_bytes_per_second: memory bandwidth of all vEUs together, in bytes per second.
        rtask_seconds: fixed cost of starting an rTask.
        barrier_seconds: cost of a barrier whose waits are already satisfied.
        launch_seconds: cost of starting an rProgram.
        queued_launch_seconds: cost of starting an rProgram that was queued while its predecessor
            ran; 0 if not lower than ``launch_seconds``.
        matrix_rates: pairs of an element type and the operations per second of a vEU by matrix
            instructions on elements of this type.
        cache_bytes: bytes that a vEU's own cache retains between rTasks; 0 if it has no cache.
        cache_kept_bytes: if a vEU uses at most this many bytes of other data between two uses of
            the same data, the data is still in the vEU's cache; 0 if not measured, which stands for
            ``cache_bytes``.
        cache_lost_bytes: if a vEU uses at least this many bytes of other data between two uses of
            the same data, the data is evicted; 0 if not measured, which stands for ``cache_bytes``.
        max_threads: maximum number of threads of an rTask.
        max_shared_memory: maximum bytes of block-local memory of an rTask.
        is_bulk_synchronous: whether vEUs can only synchronize all together, between two rPrograms,
            at a cost of ``barrier_seconds``. If True, all data of an rTask has to be in
            block-local memory.
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
        """Return the operations per second of a vEU that executes an rKernel.

        ``matrix_element`` is the rKernel's attribute ``RKernel.matrix_element``. If the device has
        a rate of matrix instructions for this element type, the result is that rate, otherwise
        ``flops_per_second``.
        """
        if not matrix_element:
            return self.flops_per_second
        return dict(self.matrix_rates).get(matrix_element, self.flops_per_second)

    def with_rate(self, matrix_element: str) -> Device:
        """Return a copy of the device in which every rKernel has the rate ``rate(matrix_element)``.

        ``matrix_element`` is the element type of matrix instructions, or empty (see ``rate``).
        """
        return replace(self, flops_per_second=self.rate(matrix_element), matrix_rates=())

    def start_seconds(self, number: int) -> float:
        """Return the seconds to start rProgram ``number`` of a run; the first has number 0.

        The first rProgram takes ``launch_seconds``. A later one takes ``barrier_seconds`` on a
        bulk-synchronous device, else ``queued_launch_seconds``, if given.
        """
        if number == 0:
            return self.launch_seconds
        if self.is_bulk_synchronous:
            return self.barrier_seconds
        return self.queued_launch_seconds or self.launch_seconds

    def _senseless(self, field: str, expected: str) -> str:
        found = getattr(self, field)
        return f"device '{self.name}': {field}: expected {expected}, found {found}"
