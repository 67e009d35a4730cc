"""Holds the memory of a program's run: arena, step counters and pointer table.

The pointer table has the addresses of the buffers that compiled code reads and writes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.programs.cpu_image import CpuImage
from rammer_mlir.programs.native_interface import CACHE_LINE, ContextWord
from rammer_mlir.runtime.pool import Job
from rammer_mlir.runtime.repetition import Moving
from rammer_mlir.support.aligned import address_of, aligned_bytes

# Every run writes these two words, and enum lookups take longer than the writes.
_RUN, _TRACES = ContextWord.RUN.value, ContextWord.TRACES.value


class Context:
    """The memory of a program's run: arena, step counters and pointer table (buffer addresses).

    Runs that use the same context must not overlap in time.

    Attributes:
        job: the vEUs' states and step counters.
        lane: index of the lane of the run that uses the context, or of the last run that used it.
            A lane is a permit to run; the number of lanes limits the number of concurrent runs.
    """

    def __init__(self, image: CpuImage, job: Job) -> None:
        """Allocate the arena and the pointer table of a program, for runs by launches of ``job``.

        ``job`` has the states and step counters of the vEUs. The addresses of inputs and outputs in
        the pointer table are set later, by ``bind``.
        """
        self._image = image
        self.job = job
        self.lane = 0
        self._arena = aligned_bytes(max(image.arena_bytes, CACHE_LINE))
        self._pointers = np.zeros(max(len(image.table.slots), 1), dtype=np.uint64)
        self._words = np.zeros(len(ContextWord), dtype=np.int64)
        # Python writes single words through memory views in a third of NumPy's time.
        words = self._word_view = self._words.data
        self._pointer_view = self._pointers.data
        self._moving: list[tuple[int, int, int]] = []
        arena = self._arena.ctypes.data
        weights = [slot.offset for slot in image.table.slots if slot.base == "constant"]
        weight = iter(image.constants.addresses(weights))
        # Arrays are passed as inputs followed by outputs.
        first = {"input": 0, "output": len(image.signature.inputs)}
        for number, slot in enumerate(image.table.slots):
            if slot.base == "arena":
                self._pointers[number] = arena + slot.offset
            elif slot.base == "constant":
                self._pointers[number] = next(weight)
            else:
                self._moving.append((number, first[slot.base] + slot.index, slot.offset))
        table = image.table
        words[ContextWord.POINTERS] = self._pointers.ctypes.data
        words[ContextWord.STEPS] = job.steps
        words[ContextWord.RECORDS] = table.records.ctypes.data
        words[ContextWord.ARGUMENTS] = table.arguments.ctypes.data
        words[ContextWord.STARTS] = table.starts.ctypes.data
        words[ContextWord.TOTALS] = table.totals.ctypes.data
        job.begin_program(self._words.ctypes.data)

    def moving(
        self, inputs: Sequence[Moving], outputs: Sequence[Moving]
    ) -> list[tuple[int, Moving, int]]:
        """Return the pointer table's entries that change between repeated runs.

        These are the pointers to inputs and outputs. The result has a triple for each: index in the
        pointer table, addresses of the input or output in all runs, and byte offset to add to these
        addresses. Also disable the recording of begin and end times.
        """
        self._word_view[_TRACES] = 0
        arrays = [*inputs, *outputs]
        return [(number, arrays[index], offset) for number, index, offset in self._moving]

    def bind(
        self,
        inputs: Sequence[NDArray[np.generic]],
        outputs: Sequence[NDArray[np.generic]],
        traces: NDArray[np.uint64] | None = None,
    ) -> None:
        """Begin the next run: increment the run number, and write the addresses of the arrays.

        Step counters are never cleared: from the run number, compiled code computes the value that
        the counters have at the beginning of the run. The run number is incremented before the run,
        so that no run reuses the number of an interrupted run.

        Args:
            inputs: the arrays to read, in the signature's order.
            outputs: the arrays to write, in the signature's order.
            traces: for each vEU, the address of the buffer that receives the begin and end times of
                the vEU's records; None to record no times.
        """
        words, pointers = self._word_view, self._pointer_view
        words[_RUN] += 1
        words[_TRACES] = 0 if traces is None else traces.ctypes.data
        addresses = [*map(address_of, inputs), *map(address_of, outputs)]
        for number, index, offset in self._moving:
            pointers[number] = addresses[index] + offset
