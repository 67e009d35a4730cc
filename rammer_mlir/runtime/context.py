"""The memory of one execution of a program: arena, step counters and pointer table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.programs.cpu_image import CpuImage
from rammer_mlir.support.aligned import address_of, aligned_bytes

_WORDS = ("pointers", "steps", "run", "traces", "spins", "records", "arguments", "starts", "totals")
"""Words of the context that native code reads, in order (see lowering/cpu/dispatch)."""

_RUN, _TRACES = _WORDS.index("run"), _WORDS.index("traces")

_LINE = 64


class Context:
    """Everything that one run at a time may write; reused from run to run."""

    def __init__(self, image: CpuImage, spins: int) -> None:
        """Allocate the arena and fill in every pointer but those of inputs and outputs."""
        self._image = image
        self._arena = aligned_bytes(max(image.arena_bytes, _LINE))
        self._steps = aligned_bytes(_LINE * image.num_veus)
        self._pointers = np.zeros(max(len(image.table.slots), 1), dtype=np.uint64)
        self._words = np.zeros(len(_WORDS), dtype=np.int64)
        self._address = self._words.ctypes.data
        # Python writes single words through views in a third of the time that NumPy takes.
        words: Any = self._words
        pointers: Any = self._pointers
        self._word_view, self._pointer_view = memoryview(words), memoryview(pointers)
        bases = {"arena": self._arena.ctypes.data, "constant": image.constants.ctypes.data}
        self._moving: list[tuple[int, int, int]] = []
        first = {"input": 0, "output": len(image.signature.inputs)}
        for number, slot in enumerate(image.table.slots):
            if slot.base in ("arena", "constant"):
                self._pointers[number] = bases[slot.base] + slot.offset
            else:
                self._moving.append((number, first[slot.base] + slot.index, slot.offset))
        table = image.table
        self._set("pointers", self._pointers.ctypes.data)
        self._set("steps", self._steps.ctypes.data)
        self._set("spins", spins)
        self._set("records", table.records.ctypes.data)
        self._set("arguments", table.arguments.ctypes.data)
        self._set("starts", table.starts.ctypes.data)
        self._set("totals", table.totals.ctypes.data)

    def _set(self, word: str, value: int) -> None:
        self._words[_WORDS.index(word)] = value

    @property
    def address(self) -> int:
        """Address that the entry function gets."""
        return self._address

    def bind(
        self,
        inputs: Sequence[NDArray[np.generic]],
        outputs: Sequence[NDArray[np.generic]],
        traces: NDArray[np.uint64] | None = None,
    ) -> None:
        """Begin the next run: count it, and point to its arrays.

        Step counters are never cleared; the run's number says where they stand. It grows before
        the run, so that an interrupted one may be skipped, but never counted twice.
        """
        words, pointers = self._word_view, self._pointer_view
        words[_RUN] += 1
        words[_TRACES] = 0 if traces is None else traces.ctypes.data
        addresses = [*map(address_of, inputs), *map(address_of, outputs)]
        for number, index, offset in self._moving:
            pointers[number] = addresses[index] + offset
