"""Checks that the rTasks of an external rKernel access only their boxes and compute right results.

Right results are those of another rKernel for the same rOperator, within a tolerance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.lowering.profiling.native_kernel import NativeKernel
from rammer_mlir.support.aligned import aligned_bytes

Array = NDArray[np.generic]
Int64Array = NDArray[np.int64]

Checked = dict[int, list[tuple[Int64Array, Int64Array]]]
"""The boxes of each argument of an rKernel, by argument index.

Each box of an argument is a pair of arrays [rTasks, rank]: the first indices, and the ends
(exclusive), for each rTask.
"""

_FLOATS = {"f32": np.float32, "f64": np.float64, "f16": np.float16}

_OTHERS = {"i1": 1, "i8": 1, "i16": 2, "bf16": 2, "i32": 4, "i64": 8}
"""Bytes of an element, by type, for types that are compared bit by bit."""

_POISONS = (np.nan, 1e6)
"""Values of inputs outside of the boxes, tried in turn, because a maximum may ignore NaN."""

_MARK = -54321.0
"""Value of float outputs before an rTask runs; unless the rTask writes them, they keep the value.

Outputs of other types have ``_MARK_BYTE`` in each byte.
"""

_MARK_BYTE = 0xA5

_MARGIN = 4096
"""Bytes before and after each argument in memory, which an rTask must neither read nor change."""


@dataclass(frozen=True)
class Memory:
    """The memory of an argument of an rKernel, with a margin before and after the argument.

    Attributes:
        whole: the margins and the elements of the argument, as an array of one dimension.
        array: the argument: a view of the middle of ``whole``, in the argument's shape.
    """

    whole: Array
    array: Array


@dataclass(frozen=True)
class Argument:
    """The shape and the element type, in MLIR syntax such as ``f32``, of an rKernel's argument."""

    shape: tuple[int, ...]
    element_type: str

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The NumPy type of the argument's elements.

        An element type other than f16, f32 and f64 is stored as an unsigned integer of the same
        size.
        """
        floating = _FLOATS.get(self.element_type)
        if floating is not None:
            return np.dtype(floating)
        return np.dtype(f"u{_OTHERS.get(self.element_type, 8)}")

    @property
    def is_float(self) -> bool:
        """Whether the element type is f16, f32 or f64.

        Elements of these types are compared with a tolerance and can be NaN. Elements of all other
        types, including bf16, are compared bit by bit.
        """
        return self.element_type in _FLOATS

    def filled(self, value: float, byte: int) -> Array:
        """Return a dense array with constant content.

        If ``is_float``, each element is ``value``; otherwise each byte is ``byte``.
        """
        return self.filled_memory(value, byte).array

    def filled_memory(self, value: float, byte: int) -> Memory:
        """Return memory whose array and margins all have the constant content of ``filled``."""
        size = int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize
        memory = aligned_bytes(size + 2 * _MARGIN)
        memory[:] = byte
        whole = memory.view(self.dtype)
        if self.is_float:
            whole[...] = value
        margin = _MARGIN // self.dtype.itemsize
        array = whole[margin : len(whole) - margin].reshape(self.shape)
        return Memory(whole, array)

    def random(self, seed: int) -> Array:
        """Return a dense array: random floats in [-1, 1) if ``is_float``, else zeros."""
        array = self.filled(0.0, 0)
        if self.is_float:
            array[...] = np.random.default_rng(seed).uniform(-1, 1, self.shape)
        return array


@dataclass(frozen=True)
class Trial:
    """An rKernel to run, with the boxes that each of its rTasks reads and writes.

    Attributes:
        kernel: the compiled rKernel.
        num_rtasks: number of rTasks.
        arguments: the rKernel's arguments except the first one, the rTask's index.
        reads: the boxes that each rTask reads, by index in ``arguments``.
        writes: the boxes that each rTask writes, by index in ``arguments``.
    """

    kernel: NativeKernel
    num_rtasks: int
    arguments: Sequence[Argument]
    reads: Checked
    writes: Checked


def first_fault(
    foreign: Trial,
    reference: Trial,
    tolerance: float,
    most: int,
    known: Mapping[int, Array] = MappingProxyType({}),
) -> str:
    """Return a message about the first rTask with a fault, or "" if no tested rTask has a fault.

    The message names the rTask, and the expected and the found behavior. An argument that only the
    rKernel under test writes is scratch memory, and is not compared.

    Args:
        foreign: the rKernel under test.
        reference: an rKernel with the same arguments and right results; all its rTasks run.
        tolerance: largest permitted difference of a float from the reference's result, divided by
            the largest absolute value that the rTask computes (at least 1).
        most: largest number of rTasks of the rKernel under test to run, evenly spaced.
        known: contents of constant arguments, by index in ``Trial.arguments``; other inputs are
            random.
    """
    wanted = [argument.random(number) for number, argument in enumerate(foreign.arguments)]
    for number, values in known.items():
        wanted[number][...] = values.view(wanted[number].dtype)
    for rtask in range(reference.num_rtasks):
        reference.kernel.run(rtask, wanted)
    step = -(-foreign.num_rtasks // most)
    compared = frozenset(reference.writes)
    faults = (
        _fault(foreign, wanted, compared, rtask, tolerance)
        for rtask in range(0, foreign.num_rtasks, step)
    )
    return next(filter(None, faults), "")


def _fault(
    trial: Trial, wanted: Sequence[Array], compared: frozenset[int], rtask: int, tolerance: float
) -> str:
    faults = (_fault_with(poison, trial, wanted, compared, rtask, tolerance) for poison in _POISONS)
    return next(filter(None, faults), "")


def _fault_with(
    poison: float,
    trial: Trial,
    wanted: Sequence[Array],
    compared: frozenset[int],
    rtask: int,
    tolerance: float,
) -> str:
    given = [_given(trial, number, wanted[number], rtask, poison) for number in range(len(wanted))]
    contents = [memory.whole.tobytes() for memory in given]
    status = trial.kernel.run(rtask, [memory.array for memory in given])
    if status:
        return f"expected status 0 of rTask {rtask}, found {status}"
    for number, (memory, content) in enumerate(zip(given, contents, strict=True)):
        if fault := _stray_write(
            memory, content, rtask, number, is_input=number not in trial.writes
        ):
            return fault
    for number in trial.writes:
        argument, found = trial.arguments[number], given[number].array
        inside = _inside(trial.writes, number, found.shape, rtask)
        mark = argument.filled(_MARK, _MARK_BYTE)
        if bool(((found != mark) & ~inside).any()):
            return (
                f"expected rTask {rtask} to write its box of argument {number} alone, found "
                "elements outside of it changed"
            )
        is_compared = number in compared
        apart = _difference(found[inside], wanted[number][inside], argument) if is_compared else 0.0
        if not apart <= tolerance:  # the negated comparison also catches NaN
            return (
                f"expected rTask {rtask} to compute argument {number} from its boxes alone, within "
                f"{tolerance:g} of the compiler's own rKernel, found a difference of {apart:.3g}"
            )
    return ""


def _stray_write(memory: Memory, content: bytes, rtask: int, number: int, *, is_input: bool) -> str:
    """Return an error message if an rTask wrote memory of an argument by mistake; else "".

    An rTask must write neither the margins of argument ``number`` nor, if ``is_input``, the
    argument itself. ``content`` has the bytes of ``memory`` before the rTask ran, margins included.
    """
    now = memory.whole.tobytes()
    if (now[:_MARGIN], now[-_MARGIN:]) != (content[:_MARGIN], content[-_MARGIN:]):
        return (
            f"expected rTask {rtask} to write its box of argument {number} alone, found memory "
            "before or after the argument changed"
        )
    if is_input and now != content:
        return (
            f"expected rTask {rtask} to leave argument {number}, an input, unchanged, found it "
            "changed"
        )
    return ""


def _given(trial: Trial, number: int, values: Array, rtask: int, poison: float) -> Memory:
    """Return the memory of argument ``number`` before an rTask of the rKernel under test runs.

    An output is filled with a constant mark: an element outside of the rTask's boxes that has
    another value afterwards was written by mistake. An input has ``values`` in the rTask's boxes
    and ``poison`` elsewhere, also in its margins.
    """
    argument = trial.arguments[number]
    if number in trial.writes:
        return argument.filled_memory(_MARK, _MARK_BYTE)
    memory = argument.filled_memory(poison, _MARK_BYTE)
    inside = _inside(trial.reads, number, memory.array.shape, rtask)
    memory.array[inside] = values[inside]
    return memory


def _inside(boxes: Checked, number: int, shape: tuple[int, ...], rtask: int) -> NDArray[np.bool_]:
    found = np.zeros(shape, dtype=np.bool_)
    for starts, ends in boxes.get(number, []):
        box = zip(starts[rtask].tolist(), ends[rtask].tolist(), strict=True)
        found[tuple(slice(begin, end) for begin, end in box)] = True
    return found


def _difference(found: Array, wanted: Array, argument: Argument) -> float:
    """Return the largest difference of ``found`` from ``wanted``, relative to ``wanted``.

    For floats, the absolute difference is divided by the largest absolute value in ``wanted``, but
    at least by 1. Elements that are not finite in ``wanted`` are ignored. For other types, the
    result is 0 if all elements are equal, else infinity.
    """
    if not argument.is_float:
        return 0.0 if np.array_equal(found, wanted) else np.inf
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    known = np.isfinite(b)
    largest = max(float(np.abs(b[known]).max(initial=0.0)), 1.0)
    return float(np.abs(a[known] - b[known]).max(initial=0.0)) / largest
