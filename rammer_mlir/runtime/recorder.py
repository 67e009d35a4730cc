"""Recording a run: when each vEU began and ended each of its records."""

from __future__ import annotations

import numpy as np

from rammer_mlir.programs.cpu_image import CpuImage
from rammer_mlir.timeline.measured import measured_timeline
from rammer_mlir.timeline.spans import Timeline


class Recorder:
    """Buffers that native code writes times to, for one run."""

    def __init__(self, image: CpuImage) -> None:
        """Allocate two 64-bit numbers, nanoseconds, for each record."""
        self._image = image
        self._times = [
            np.zeros((max(len(records), 1), 2), dtype=np.int64) for records in image.launch.veus
        ]
        self.addresses = np.array([times.ctypes.data for times in self._times], dtype=np.uint64)

    def timeline(self, title: str) -> Timeline:
        """Return what was recorded, from the run's first record on."""
        image = self._image
        modules, exclusive = image.module_names, image.proof.exclusive
        return measured_timeline(image.program, self._times, title, modules, exclusive)
