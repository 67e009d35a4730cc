"""Measures the begin and end of each record of each vEU during a run of a CPU program.

A record is an entry in a vEU's list: a range of consecutive rTasks, or a barrier.
"""

from __future__ import annotations

import numpy as np

from rammer_mlir.programs.cpu_image import CpuImage
from rammer_mlir.timeline.measured import measured_timeline
from rammer_mlir.timeline.spans import Timeline


class Recorder:
    """Buffers to which compiled code writes the begin and end times of records during a run.

    A record is a sequence of consecutive rTasks of an rOperator on a vEU, or a barrier.
    """

    def __init__(self, image: CpuImage) -> None:
        """Allocate memory for the begin and end times of each record of each vEU.

        The times are int64 nanoseconds.
        """
        self._image = image
        self._times = [
            np.zeros((max(len(records), 1), 2), dtype=np.int64) for records in image.launch.veus
        ]
        self.addresses = np.array([times.ctypes.data for times in self._times], dtype=np.uint64)

    def timeline(self, title: str) -> Timeline:
        """Return the recorded timeline, titled ``title``.

        Time 0 is the earliest begin of a record on any vEU.
        """
        image = self._image
        modules, exclusive = image.module_names, image.proof.exclusive
        return measured_timeline(image.program, self._times, title, modules, exclusive)
