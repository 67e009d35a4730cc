"""A model compiled for a GPU and executed by the emulator."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.emulated import EmulatedKernel
from rammer_mlir.errors import InputError, OptionError
from rammer_mlir.runtime.emulator import Grid, launch
from rammer_mlir.runtime.feeds import check_inputs, check_outputs
from rammer_mlir.signature import Signature

Array = NDArray[np.generic]


@dataclass(frozen=True)
class EmulatedProgram:
    """A persistent kernel and what its launches need.

    Attributes:
        kernel: native code of the kernel.
        grid: blocks (one for each vEU), threads, subgroup size.
        signature: the model's inputs and outputs.
        arguments: the kernel's buffers in order: ``inputN``, ``outputN``, ``constant``, ``arena``,
            ``scratches``, ``counters``, ``table``.
        argument_bytes: their sizes.
        constants: uint8, all weights.
        table: int64, the schedule.
        summary: the schedule in words.
    """

    kernel: EmulatedKernel
    grid: Grid
    signature: Signature
    arguments: tuple[str, ...]
    argument_bytes: tuple[int, ...]
    constants: NDArray[np.uint8]
    table: NDArray[np.int64]
    summary: str


class EmulatedExecutable:
    """A compiled model, as ``Executable``, whose GPU kernel runs on the CPU.

    It cannot be saved: an artifact for a GPU holds the GPU's code.
    """

    def __init__(self, program: EmulatedProgram, stats: Mapping[str, Any] | None = None) -> None:
        """Allocate the device's buffers; step counters are zeroed here and never again."""
        self._program = program
        self._lock = threading.Lock()
        self._buffers = {
            name: np.zeros(size, np.uint8)
            for name, size in zip(program.arguments, program.argument_bytes, strict=True)
        }
        self._fill("constant", program.constants)
        self._fill("table", program.table)
        self.stats: dict[str, Any] = dict(stats or {})

    def _fill(self, name: str, values: Array) -> None:
        data = np.frombuffer(values.tobytes(), np.uint8)
        self._buffers[name][: data.size] = data
        self._buffers[name].flags.writeable = False

    @property
    def signature(self) -> Signature:
        """Names, shapes and types of inputs and outputs."""
        return self._program.signature

    @property
    def summary(self) -> str:
        """The schedule in words."""
        return self._program.summary

    @property
    def num_veus(self) -> int:
        """Blocks of the kernel."""
        return self._program.grid.blocks

    def run(
        self, feeds: Mapping[str, Any], out: Mapping[str, Array] | None = None
    ) -> dict[str, Array]:
        """Run the model.

        Args:
            feeds: arrays by input name, of exactly the signature's shapes and dtypes.
            out: arrays to write outputs to, by name; others are allocated.

        Returns:
            Arrays by output name, in the signature's order.

        Raises:
            InputError: if names, shapes or dtypes do not fit.
            EmulationError: if the kernel does what a GPU would not forgive.
        """
        inputs = check_inputs(self.signature, feeds)
        outputs = check_outputs(self.signature, out or {}, inputs)
        with self._lock:
            for number, array in enumerate(inputs):
                buffer = self._buffers[f"input{number}"]
                buffer[: array.nbytes] = np.frombuffer(array.tobytes(), np.uint8)
            self._launch()
            for number, array in enumerate(outputs):
                found = self._buffers[f"output{number}"][: array.nbytes]
                array[...] = np.frombuffer(found.tobytes(), array.dtype).reshape(array.shape)
        specs = self.signature.outputs
        return {spec.name: array for spec, array in zip(specs, outputs, strict=True)}

    def _launch(self) -> None:
        program = self._program
        unwritten = [
            number for number, name in enumerate(program.arguments)
            if name in ("arena", "scratches") or name.startswith("output")
        ]  # fmt: skip
        launch(
            program.kernel,
            [self._buffers[name] for name in program.arguments],
            program.grid,
            names=self._names(),
            unwritten=unwritten,
        )

    def _names(self) -> Sequence[str]:
        """Name the buffers in the model's words."""
        signature = self.signature
        names = {f"input{n}": f"input '{s.name}'" for n, s in enumerate(signature.inputs)}
        names |= {f"output{n}": f"output '{s.name}'" for n, s in enumerate(signature.outputs)}
        return [names.get(name, f"the {name}") for name in self._program.arguments]

    def __call__(self, *arrays: Any) -> Any:
        """Run on arrays in the signature's order; return one array, or a tuple of several."""
        specs = self.signature.inputs
        if len(arrays) != len(specs):
            raise InputError(f"expected {len(specs)} inputs, found {len(arrays)}")
        outputs = self.run({s.name: a for s, a in zip(specs, arrays, strict=True)})
        values = tuple(outputs.values())
        return values[0] if len(values) == 1 else values

    def save(self, path: str | os.PathLike[str]) -> None:
        """Refuse to write emulated code.

        Raises:
            OptionError: always.
        """
        raise OptionError(
            f"cannot save '{os.fspath(path)}': expected code for a device, found emulated code; "
            "compile without emulation"
        )

    def timeline(self, path: str | os.PathLike[str], feeds: Mapping[str, Any]) -> None:
        """Refuse, as ``record`` does."""
        self.record(feeds, str(path))

    def record(self, feeds: Mapping[str, Any], title: str = "measured") -> NoReturn:
        """Refuse to record times that would say nothing about a GPU.

        Raises:
            OptionError: always.
        """
        raise OptionError(
            "timeline: expected a target that runs on the device, found emulation, whose times "
            "say nothing about a GPU; leave --timeline out"
        )

    def close(self) -> None:
        """Do nothing: there are no threads to end."""

    def __enter__(self) -> EmulatedExecutable:
        """Use as a context manager, like other executables."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the executable."""
        self.close()
