"""Writes and reads host programs as JSON for artifacts; arrays are stored outside of the JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.programs.constants import Bytes
from rammer_mlir.programs.host_program import (
    Call,
    Choose,
    Compute,
    Evaluate,
    HostProgram,
    Repeat,
    Source,
    Stack,
    Step,
)
from rammer_mlir.programs.padding import PaddedInput, PaddedOutput, Padding
from rammer_mlir.runtime.artifact_parts import read_dtype

Json = dict[str, Any]


@dataclass(frozen=True)
class ArrayWriter:
    """Stores arrays outside of the JSON.

    Attributes:
        place: adds an array's bytes to the artifact's ``constants.bin``, and returns the offset of
            these bytes in the file.
    """

    place: Callable[[Bytes], int]

    def write(self, array: NDArray[Any]) -> Json:
        """Store an array; return a JSON object with ``dtype``, ``shape`` and ``place``.

        ``place`` is the list [byte offset, size in bytes].
        """
        content = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
        place = [self.place(content), content.nbytes]
        return {"dtype": str(array.dtype), "shape": array.shape, "place": place}


@dataclass(frozen=True)
class ArrayReader:
    """Reads arrays from ``blob``, the bytes that an ``ArrayWriter`` collected."""

    blob: Bytes

    def read(self, found: Json) -> NDArray[Any]:
        """Return the array that a JSON object from ``ArrayWriter.write`` describes."""
        start, size = found["place"]
        content = self.blob[start : start + size].tobytes()
        return np.frombuffer(content, read_dtype(found["dtype"])).reshape(found["shape"])


def write_program(program: HostProgram, arrays: ArrayWriter) -> Json:
    """Return a JSON object that describes a host program.

    ``arrays`` stores the program's arrays outside of the JSON.
    """
    return {
        "inputs": program.inputs,
        "outputs": program.outputs,
        "steps": [_written(step, arrays) for step in program.steps],
        "constants": {name: arrays.write(value) for name, value in program.constants.items()},
    }


def read_program(found: Json, arrays: ArrayReader) -> HostProgram:
    """Return the host program that a JSON object describes.

    ``arrays`` reads the program's arrays, which are outside of the JSON.
    """
    return HostProgram(
        tuple(found["inputs"]),
        tuple(found["outputs"]),
        tuple(_read(step, arrays) for step in found["steps"]),
        {name: arrays.read(value) for name, value in found["constants"].items()},
    )


def _written(step: Step, arrays: ArrayWriter) -> Json:
    match step:
        case Compute(call, results, padding, obstacle):
            return {
                "step": "compute",
                "call": _call(call),
                "results": results,
                "padding": None if padding is None else _written_padding(padding),
                "obstacle": obstacle,
            }
        case Evaluate():
            attributes = {n: _attribute(v, arrays) for n, v in step.attributes.items()}
            return {
                "step": "evaluate",
                "name": step.name,
                "kind": step.kind,
                "attributes": attributes,
                "operands": step.operands,
                "results": step.results,
            }
        case Choose(name, condition, branches, results):
            return {
                "step": "choose",
                "name": name,
                "condition": condition,
                "branches": [_call(branch) for branch in branches],
                "results": results,
            }
        case Repeat():
            return _written_repeat(step)


def _written_repeat(step: Repeat) -> Json:
    stacks = [[s.value, s.axis, s.is_reversed, str(s.dtype), s.element] for s in step.stacks]
    return {
        "step": "repeat",
        "name": step.name,
        "is_counted": step.is_counted,
        "count": step.count,
        "condition": step.condition,
        "states": step.states,
        "sources": [[s.value, s.axis, s.is_reversed] for s in step.sources],
        "body": _call(step.body),
        "results": step.results,
        "stacks": stacks,
    }


def _written_padding(padding: Padding) -> Json:
    return {
        "inputs": [[e.name, e.axes, e.is_last, e.is_index] for e in padding.inputs],
        "outputs": [each.axes for each in padding.outputs],
        "has_spare": padding.has_spare,
        "most": padding.most,
    }


def _read_padding(found: Json) -> Padding:
    inputs = (
        PaddedInput(name, tuple((axis, group) for axis, group in axes), is_last, is_index)
        for name, axes, is_last, is_index in found["inputs"]
    )
    outputs = (PaddedOutput(tuple((a, g, f) for a, g, f in axes)) for axes in found["outputs"])
    return Padding(tuple(inputs), tuple(outputs), found["has_spare"], found["most"])


def _call(call: Call) -> list[Any]:
    return [call.part, call.operands, call.shapes]


def _attribute(value: Any, arrays: ArrayWriter) -> Any:
    """Return the value of an operator's attribute, converted to types that JSON has.

    An array, dtype or byte string becomes an object with the type as its only key, such as
    ``{"bytes": "00ff"}`` or ``{"dtype": "int64"}``.
    """
    if isinstance(value, np.ndarray):
        return {"array": arrays.write(value)}
    if isinstance(value, np.dtype):
        return {"dtype": str(value)}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_attribute(each, arrays) for each in value]
    return value


def _read_attribute(found: Any, arrays: ArrayReader) -> Any:
    if isinstance(found, list):
        return [_read_attribute(each, arrays) for each in found]
    if not isinstance(found, Mapping):
        return found
    ((kind, value),) = found.items()
    readers: dict[str, Callable[[Any], Any]] = {
        "array": arrays.read,
        "dtype": read_dtype,
        "bytes": bytes.fromhex,
    }
    return readers[kind](value)


def _read(found: Json, arrays: ArrayReader) -> Step:
    kind = found["step"]
    results = tuple(found["results"])
    if kind == "compute":
        # Artifacts of earlier versions lack this key.
        padding = found.get("padding")
        read = None if padding is None else _read_padding(padding)
        return Compute(_read_call(found["call"]), results, read, found.get("obstacle", ""))
    if kind == "evaluate":
        attributes = {n: _read_attribute(v, arrays) for n, v in found["attributes"].items()}
        operands = tuple(found["operands"])
        return Evaluate(found["name"], found["kind"], attributes, operands, results)
    if kind == "choose":
        then, otherwise = map(_read_call, found["branches"])
        return Choose(found["name"], found["condition"], (then, otherwise), results)
    return Repeat(
        found["name"],
        found["is_counted"],
        found["count"],
        found["condition"],
        tuple(found["states"]),
        tuple(Source(*each) for each in found["sources"]),
        _read_call(found["body"]),
        results,
        tuple(_read_stack(each) for each in found["stacks"]),
    )


def _read_call(found: Sequence[Any]) -> Call:
    part, operands, shapes = found
    return Call(part, tuple(operands), None if shapes is None else tuple(map(tuple, shapes)))


def _read_stack(found: Sequence[Any]) -> Stack:
    value, axis, is_reversed, dtype, element = found
    return Stack(value, axis, is_reversed, read_dtype(dtype), tuple(element))
