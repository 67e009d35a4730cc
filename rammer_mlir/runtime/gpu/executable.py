"""Runs a compiled GPU model."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from rammer_mlir.errors import InputError, OptionError, TargetError
from rammer_mlir.programs.constants import Constants
from rammer_mlir.programs.gpu_image import GpuImage
from rammer_mlir.programs.native_interface import argument_name
from rammer_mlir.programs.signature import Signature, TensorSpec
from rammer_mlir.runtime.artifact import Artifact
from rammer_mlir.runtime.compiled import Array, CompiledModel
from rammer_mlir.runtime.feeds import check_inputs, check_names, check_outputs
from rammer_mlir.runtime.gpu.arrays import DeviceArray, find_on_device
from rammer_mlir.runtime.gpu.driver import Driver
from rammer_mlir.runtime.gpu.program import DeviceProgram

OpenDriver = Callable[[], Driver]
"""A function that opens the driver of the device that runs the program."""


@dataclass(frozen=True)
class _Placed:
    """An input in device memory: its address, and the object that owns the memory."""

    address: int
    owner: object


class CapturedRun:
    """A run captured as a CUDA or HIP graph, which can be repeated at low launch cost.

    ``replay`` repeats the run with a single driver call, with the same memory of inputs and
    outputs.
    """

    def __init__(
        self, program: DeviceProgram, lock: threading.Lock, graph: object,
        inputs: Sequence[_Placed], outputs: Mapping[str, DeviceArray],
    ) -> None:  # fmt: skip
        """Store the graph, the tensors that it reads and writes, and the executable's lock."""
        self._lock = lock
        self._program, self._graph, self._inputs = program, graph, inputs
        self.outputs = dict(outputs)
        release = weakref.finalize(self, _forget, program, graph)
        release.atexit = False  # the driver frees all graphs at exit

    def replay(self) -> dict[str, DeviceArray]:
        """Start the run once more, after all earlier runs; return its outputs without waiting.

        Raises:
            TargetError: if the executable, whose memory the graph uses, is closed.
        """
        with self._lock:
            self._check_open()
            stream = self._program.stream
            self._program.continue_on(stream)
            self._program.driver.replay(self._graph, stream)
        return self.outputs

    def synchronize(self) -> None:
        """Wait until all replays are done.

        Raises:
            TargetError: if the watchdog stopped a run, or the executable is closed.
        """
        with self._lock:
            self._check_open()
            self._program.check(self._program.stream)

    def _check_open(self) -> None:
        if self._program.is_closed:
            raise TargetError("the executable is closed: compile or load it again")


def _forget(program: DeviceProgram, graph: object) -> None:
    program.driver.forget(graph)


class GpuExecutable(CompiledModel):
    """A model compiled for a GPU.

    The first run opens the driver and uploads the weights. Methods may be called from several
    Python threads; runs of the same executable are serialized on the device.
    """

    def __init__(
        self,
        image: GpuImage,
        code: bytes,
        open_driver: OpenDriver,
        stats: Mapping[str, Any] | None = None,
    ) -> None:
        """Wrap compiled code.

        Args:
            image: the program's data.
            code: the kernel's code, of the kind ``image.code_kind``.
            open_driver: opens the driver of the device that runs the program; raises
                ``TargetError`` if there is no driver or device.
            stats: compiler statistics by name, such as the seconds of each stage; may be None.
        """
        super().__init__(image, stats)
        self._image, self._code, self._open_driver = image, code, open_driver
        self._lock = threading.Lock()
        self._program: DeviceProgram | None = None
        self._outputs: list[DeviceArray] = []
        self._inputs: dict[int, DeviceArray] = {}
        self._closed = False

    @property
    def image(self) -> GpuImage:
        """The program's data: schedule, weights, signature and memory sizes."""
        return self._image

    @property
    def code(self) -> bytes:
        """The kernel's code, of the kind ``image.code_kind``: cubin, PTX or a code object."""
        return self._code

    @property
    def target(self) -> str:
        """Target that the model is compiled for, for example ``nvvm:sm_90``."""
        return self._image.target

    @property
    def program(self) -> DeviceProgram:
        """The program on the device; the first access opens the driver and uploads the program.

        Raises:
            TargetError: if there is no driver or device, the device has another chip, has too
                little memory, or cannot hold all blocks of the program at once, or the executable
                is closed.
        """
        if self._closed:
            raise TargetError("the executable is closed: compile or load it again")
        if self._program is None:
            self._program = DeviceProgram(self._open_driver(), self._image, self._code)
        return self._program

    def run(
        self, feeds: Mapping[str, Any], out: Mapping[str, Array] | None = None
    ) -> dict[str, Array]:
        """Run the model, and return its outputs when the run is done.

        Args:
            feeds: by input name: host arrays, which are copied to the device, or device tensors
                (DLPack, ``__cuda_array_interface__``), which are used in place.
            out: host arrays that receive outputs, by output name; each output without an array in
                ``out`` gets a new array.

        Returns:
            Host arrays by output name, in the signature's order, followed by the new values, by
                input name, of the inputs that the program updates in place.

        Raises:
            InputError: if names, shapes or dtypes do not match.
            TargetError: if the device cannot run the program, or the watchdog stopped it.
        """
        with self._lock:
            check_names(self.signature.inputs, feeds, "input")
            hosts = [value for value in feeds.values() if isinstance(value, np.ndarray)]
            outputs = check_outputs(self.signature, out or {}, hosts)
            program = self.program
            stream = program.stream
            inputs = self._place(program, feeds, stream)
            if not self._outputs:
                self._outputs = [
                    DeviceArray(program.driver, s, stream) for s in self.signature.outputs
                ]
            program.launch(
                [placed.address for placed in inputs], [o.address for o in self._outputs], stream
            )
            program.check(stream)
            for array, found in zip(outputs, self._outputs, strict=True):
                program.driver.download(array, found.address, stream)
            changed = self._changed(program, inputs, stream)
            program.driver.synchronize(stream)
        specs = self.signature.outputs
        return {spec.name: array for spec, array in zip(specs, outputs, strict=True)} | changed

    def _changed(
        self, program: DeviceProgram, inputs: Sequence[_Placed], stream: object
    ) -> dict[str, Array]:
        """Return host copies of the new values of the inputs that the program updates, by name.

        The copies are enqueued on ``stream``; they are valid after synchronization of the stream.
        """
        found: dict[str, Array] = {}
        for number, (spec, placed) in enumerate(zip(self.signature.inputs, inputs, strict=True)):
            if argument_name("input", number) in self._image.inouts:
                found[spec.name] = np.empty(spec.shape, spec.dtype)
                program.driver.download(found[spec.name], placed.address, stream)
        return found

    def to_device(self, feeds: Mapping[str, Any]) -> dict[str, DeviceArray]:
        """Return copies of the inputs ``feeds`` on the device, by name.

        Runs that get these copies as ``feeds`` use them in place.

        Raises:
            InputError: if names, shapes or dtypes do not match.
            TargetError: if the device memory is too small.
        """
        arrays = check_inputs(self.signature, feeds)
        with self._lock:
            driver, stream = self.program.driver, self.program.stream
            placed: dict[str, DeviceArray] = {}
            for spec, array in zip(self.signature.inputs, arrays, strict=True):
                placed[spec.name] = DeviceArray(driver, spec, stream)
                if array.nbytes:
                    driver.upload(placed[spec.name].address, array, stream)
            driver.synchronize(stream)
        return placed

    def run_on_device(
        self,
        feeds: Mapping[str, Any],
        out: Mapping[str, DeviceArray] | None = None,
        stream: int | None = None,
    ) -> dict[str, DeviceArray]:
        """Start a run; return its outputs on the device without waiting.

        Args:
            feeds: as for ``run``. Until the run is done, the caller must not change device tensors,
                or host arrays in page-locked memory.
            out: arrays that receive outputs, by output name. They must be results of an earlier
                call of this method. Each output without an array in ``out`` gets a new array; its
                memory is that of an output of an earlier run which is no longer referenced, if
                there is one that no other package has used.
            stream: native handle of the stream to run on, such as ``torch``'s
                ``stream.cuda_stream``; None for the executable's stream.

        Raises:
            InputError: if names, shapes or dtypes do not match.
            TargetError: if the device cannot run the program.
        """
        with self._lock:
            program = self.program
            place = program.stream if stream is None else program.driver.stream_of(stream)
            inputs = self._place(program, feeds, place)
            outputs = self._device_outputs(program, out or {}, place)
            program.launch([i.address for i in inputs], [o.address for o in outputs], place)
            program.join(place)
            for array in outputs:
                array.stream = program.stream
        return {spec.name: o for spec, o in zip(self.signature.outputs, outputs, strict=True)}

    def synchronize(self) -> None:
        """Wait for all runs.

        Raises:
            TargetError: if the watchdog stopped a run.
        """
        with self._lock:
            program = self.program
            program.check(program.last_stream)

    def capture(self, feeds: Mapping[str, Any]) -> CapturedRun:
        """Capture a run as a graph, and return the graph without running the model.

        Args:
            feeds: as for ``run``. Each replay reads the current content of device tensors; host
                arrays are copied to the device once, by this method.
        """
        with self._lock:
            program = self.program
            stream = program.stream
            inputs = self._place(program, feeds, stream, fresh=True)
            outputs = self._device_outputs(program, {}, stream)
            program.continue_on(stream)
            # Wait for earlier work now, so that the capture does not record it.
            program.driver.synchronize(stream)
            program.driver.begin_capture(stream)
            try:
                program.launch([i.address for i in inputs], [o.address for o in outputs], stream)
            finally:
                # End the capture even after an error, or the stream stays unusable.
                graph = program.driver.end_capture(stream)
        named = zip(self.signature.outputs, outputs, strict=True)
        return CapturedRun(program, self._lock, graph, inputs, {s.name: o for s, o in named})

    def _place(
        self,
        program: DeviceProgram,
        feeds: Mapping[str, Any],
        stream: object,
        *,
        fresh: bool = False,
    ) -> list[_Placed]:
        """Return all inputs in device memory, in the signature's order.

        Device tensors in ``feeds`` are used in place, host arrays are copied. With ``fresh``, each
        copy gets new memory, which later runs do not overwrite.
        """
        specs = self.signature.inputs
        check_names(specs, feeds, "input")
        found = {
            spec.name: find_on_device(program.driver, feeds[spec.name], spec, stream)
            for spec in specs
            if spec.name in feeds
        }
        host = {name: value for name, value in feeds.items() if found[name] is None}
        device = [spec.name for spec in specs if found.get(spec.name) is not None]
        rest = Signature(tuple(spec for spec in specs if spec.name not in device), ())
        arrays = dict(zip((s.name for s in rest.inputs), check_inputs(rest, host), strict=True))
        placed: list[_Placed] = []
        for number, spec in enumerate(specs):
            borrowed = found[spec.name]
            if borrowed is not None:
                if isinstance(borrowed.owner, DeviceArray):
                    borrowed.owner.use_in(program.outputs)
                placed.append(_Placed(borrowed.address, borrowed.owner))
                continue
            memory = self._input_memory(program, number, spec, stream, fresh=fresh)
            if arrays[spec.name].nbytes:
                program.driver.upload(memory.address, arrays[spec.name], stream)
            placed.append(_Placed(memory.address, memory))
        return placed

    def _input_memory(
        self, program: DeviceProgram, number: int, spec: TensorSpec, stream: object, *, fresh: bool
    ) -> DeviceArray:
        if fresh:
            # A graph keeps the addresses of its inputs, so later runs must not reuse them.
            return DeviceArray(program.driver, spec, stream)
        if number not in self._inputs:
            self._inputs[number] = DeviceArray(program.driver, spec, program.stream)
        memory = self._inputs[number]
        program.continue_on(stream)  # an earlier run on another stream may still read it
        return memory

    def _device_outputs(
        self, program: DeviceProgram, out: Mapping[str, DeviceArray], stream: object
    ) -> list[DeviceArray]:
        check_names(self.signature.outputs, out, "output")
        outputs: list[DeviceArray] = []
        for spec in self.signature.outputs:
            array = out.get(spec.name)
            if array is None:
                array = DeviceArray(program.driver, spec, stream, program.outputs)
            elif (array.shape, array.dtype) != (spec.shape, spec.dtype):
                raise InputError(
                    f"output '{spec.name}': expected {spec.dtype}{list(spec.shape)}, found "
                    f"{array.dtype}{list(array.shape)}; give an array that a run returned"
                )
            array.use_in(program.outputs)
            array.stream = stream
            outputs.append(array)
        return outputs

    def artifact(self) -> Artifact:
        """Return the program, its kernel, and its statistics."""
        return Artifact(self._image, self._code, self.stats)

    def use_constants(self, constants: Constants) -> None:
        """Take the weights from ``constants``, which have the same values in other host memory.

        Call this only before the first run, because the first run uploads the weights.
        """
        assert self._program is None, "the weights are on the device"
        self._image = self._description = replace(self._image, constants=constants)

    def timeline(self, path: str | os.PathLike[str], feeds: Mapping[str, Any]) -> None:
        """Raise ``OptionError``: a GPU's vEUs record no times, so there is no timeline to write."""
        self.record(feeds, os.fspath(path))

    def record(self, feeds: Mapping[str, Any], title: str = "measured") -> NoReturn:
        """Raise ``OptionError``: a GPU's vEUs record no times, and emulated times mean nothing.

        Raises:
            OptionError: always.
        """
        raise OptionError(
            f"timeline: expected the target cpu, whose vEUs record times, found {self.target}; "
            "leave --timeline out"
        )

    def close(self) -> None:
        """Free the device memory and unload the code; the executable cannot run afterwards."""
        with self._lock:
            self._closed = True
            if self._program is not None:
                self._program.close()
            self._program = None
            self._outputs, self._inputs = [], {}
