"""Tests that runs accept inputs and output buffers of all types, shapes and layouts.

Wrong inputs and buffers are refused.
"""

from __future__ import annotations

import ctypes
import tracemalloc
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from rammer_mlir.errors import InputError
from rammer_mlir.programs.signature import TensorSpec
from rammer_mlir.runtime.dlpack import CPU, lend
from rammer_mlir.runtime.executable import Executable
from rammer_mlir.runtime.host_arrays import readable
from rammer_mlir.support.aligned import ALIGNMENT, LARGE, address_of
from tests.runtime.elementwise import Elementwise
from tests.runtime.ring import Ring

FLOAT = "%q = arith.addf %p, %p : {0}"
INTEGER = "%q = arith.muli %p, %p : {0}"
NOT = "%true = arith.constant true\n    %q = arith.xori %p, %true : i1"

TYPES = {
    "f16": (np.float16, FLOAT),
    "bf16": (ml_dtypes.bfloat16, FLOAT),
    "f32": (np.float32, FLOAT),
    "f64": (np.float64, FLOAT),
    "i8": (np.int8, INTEGER),
    "i16": (np.int16, INTEGER),
    "i32": (np.int32, INTEGER),
    "i64": (np.int64, INTEGER),
}

SHAPES: list[tuple[int, ...]] = [(), (1,), (0,), (3, 0, 2), (7,), (3, 5), (2, 3, 17), (1, 1, 1, 65)]


def program(element: str, shape: tuple[int, ...]) -> Elementwise:
    """Return a program that doubles floats or squares integers, elementwise."""
    dtype, body = TYPES[element]
    return Elementwise(shape, element, np.dtype(dtype), body.format(element))


def values(dtype: Any, shape: tuple[int, ...]) -> np.ndarray[Any, np.dtype[Any]]:
    """Return an array of type ``dtype`` with small integers, which all types represent exactly."""
    return np.arange(-7, -7 + int(np.prod(shape))).reshape(shape).astype(dtype)


@pytest.mark.parametrize("element", TYPES)
@pytest.mark.parametrize("shape", [(3, 5), (2, 67)], ids=str)
def test_element_types(element: str, shape: tuple[int, ...]) -> None:
    """Results of every element type are exact, and have the type of the signature."""
    dtype, body = TYPES[element]
    x = values(dtype, shape)
    with program(element, shape).build() as executable:
        y = executable(x)
    assert y.dtype == np.dtype(dtype)
    assert np.array_equal(y, x + x if body is FLOAT else x * x)


@pytest.mark.parametrize("shape", [(3, 5), (2, 67)], ids=str)
def test_booleans(shape: tuple[int, ...]) -> None:
    """A boolean is stored as a byte that is 0 or 1."""
    x = values(np.int64, shape) % 3 == 0
    with Elementwise(shape, "i1", np.dtype(np.bool_), NOT).build() as executable:
        y = executable(x)
    assert y.dtype == np.bool_
    assert np.array_equal(y.view(np.uint8), 1 - x.view(np.uint8))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes(shape: tuple[int, ...]) -> None:
    """Programs run on tensors of any rank, on scalars, and on tensors without elements."""
    x = values(np.float32, shape)
    with program("f32", shape).build() as executable:
        y = executable(x)
    assert y.shape == shape
    assert np.array_equal(y, x + x)


@pytest.fixture(scope="module")
def doubler() -> Iterator[Executable]:
    """A compiled program ``y = x + x`` on 3x5 floats."""
    with program("f32", (3, 5)).build() as executable:
        yield executable


X = np.arange(15, dtype=np.float32).reshape(3, 5)
READ_ONLY = np.zeros((3, 5), dtype=np.float32)
READ_ONLY.flags.writeable = False


def misaligned(array: np.ndarray[Any, np.dtype[Any]]) -> np.ndarray[Any, np.dtype[Any]]:
    """Return a copy that begins at an odd address."""
    raw = np.zeros(array.nbytes + 1, dtype=np.uint8)[1:]
    copy = raw.view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


@pytest.mark.parametrize(
    "x",
    [np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2], X[::-1][::-1], misaligned(X)],
    ids=["column-major", "strided", "reversed twice", "misaligned"],
)
def test_inputs_of_any_layout(doubler: Executable, x: np.ndarray[Any, np.dtype[Any]]) -> None:
    """Inputs that are not dense, row-major and aligned give right results: runs copy them first."""
    assert np.array_equal(doubler(x), X + X)


def test_read_only_inputs_and_lists_of_arrays(doubler: Executable) -> None:
    """Read-only arrays and lists of arrays of the right type are accepted as inputs."""
    x = X.copy()
    x.flags.writeable = False
    assert np.array_equal(doubler(x), X + X)
    assert np.array_equal(doubler.run({"x": list(X)})["y"], X + X)


def test_output_buffers_are_written_and_returned(doubler: Executable) -> None:
    """A run writes to the arrays in ``out``; without ``out``, each run allocates new arrays."""
    y = np.full((3, 5), np.nan, dtype=np.float32)
    assert doubler.run({"x": X}, out={"y": y})["y"] is y
    assert np.array_equal(y, X + X)
    first, second = doubler.run({"x": X})["y"], doubler.run({"x": -X})["y"]
    assert np.array_equal(first, X + X) and np.array_equal(second, -X - X)


def test_runs_leave_memory_around_the_buffers_alone(doubler: Executable) -> None:
    """A run writes no byte before or after an output buffer."""
    frame = np.full(15 + 32, 7, dtype=np.float32)
    doubler.run({"x": X}, out={"y": frame[16:31].reshape(3, 5)})
    assert np.array_equal(frame[:16], np.full(16, 7)) and np.array_equal(frame[31:], np.full(16, 7))
    assert np.array_equal(frame[16:31].reshape(3, 5), X + X)


BAD_FEEDS: dict[str, tuple[Any, str]] = {
    "unknown name": ({"z": X}, "unknown input 'z': expected 'x' 3x5 float32"),
    "one name too many": ({"x": X, "z": X}, "unknown input 'z': expected 'x' 3x5 float32"),
    "missing": ({}, "input 'x' is missing: give 'x' 3x5 float32"),
    "shape": ({"x": X.T}, "input 'x': expected shape 3x5, found 5x3; the model was compiled"),
    "rank": ({"x": np.float32(1)}, "input 'x': expected shape 3x5, found scalar;"),
    "dtype": ({"x": X.astype("f8")}, "input 'x': expected dtype float32, found float64; convert"),
    "byte order": ({"x": X.astype(">f4")}, "input 'x': expected dtype float32, found >f4; convert"),
    "text": ({"x": "abc"}, "input 'x': expected dtype float32, found <U3"),
    "None": ({"x": None}, "input 'x': expected dtype float32, found object"),
    "ragged": ({"x": [[1.0], [1.0, 2.0]]}, "input 'x': expected an array, found"),
    "not a mapping": ([X], "inputs: expected a mapping from names to arrays, found list"),
    "an array": (X, "inputs: expected a mapping from names to arrays, found ndarray"),
}


@pytest.mark.parametrize(("feeds", "message"), BAD_FEEDS.values(), ids=BAD_FEEDS)
def test_bad_inputs_are_refused(doubler: Executable, feeds: Any, message: str) -> None:
    """A wrong input is refused with a line that has its name, the expected and the found value."""
    with pytest.raises(InputError) as caught:
        doubler.run(feeds)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


BAD_OUTPUTS: dict[str, tuple[dict[str, Any], str]] = {
    "unknown name": ({"x": np.zeros((3, 5), "f")}, "unknown output 'x': expected 'y' 3x5 float32"),
    "shape": ({"y": np.zeros((5, 3), "f")}, "output 'y': expected shape 3x5, found 5x3"),
    "dtype": ({"y": np.zeros((3, 5))}, "output 'y': expected dtype float32, found float64"),
    "list": ({"y": list(X)}, "output 'y': expected a writable"),
    "read-only": ({"y": READ_ONLY}, "output 'y': expected a writable"),
    "layout": ({"y": np.zeros((5, 3), "f").T}, "output 'y': expected a writable"),
    "misaligned": ({"y": misaligned(X)}, "output 'y': expected a writable, aligned"),
    "the input": ({"y": X}, "output 'y': expected memory of its own"),
}


@pytest.mark.parametrize(("out", "message"), BAD_OUTPUTS.values(), ids=BAD_OUTPUTS)
def test_bad_output_buffers_are_refused(doubler: Executable, out: Any, message: str) -> None:
    """A wrong output buffer is refused before anything runs."""
    with pytest.raises(InputError) as caught:
        doubler.run({"x": X}, out=out)
    assert str(caught.value).startswith(message)


def test_an_output_may_not_overlap_an_input() -> None:
    """An output buffer that overlaps an input is refused: writing it would change the input."""
    ring = Ring(rows=2, columns=8)
    memory = np.zeros(24, dtype=np.float32)
    x, y = memory[:16].reshape(2, 8), memory[8:].reshape(2, 8)
    with ring.build() as executable:
        with pytest.raises(InputError, match="'y': expected memory of its own"):
            executable.run({"x": x}, out={"y": y})
        result = executable.run({"x": x.copy()}, out={"y": y})["y"]
        assert np.array_equal(result, ring.expected(x * 0))


class Foreign:
    """A stub for a tensor of another library, which supports DLPack only, on a NumPy array.

    With ``versioned``, it supports version 1 of the protocol, otherwise only the older form.
    ``device`` is DLPack's type of the device, by default the CPU.
    """

    def __init__(self, array: Any, *, versioned: bool = False, device: int = 1) -> None:
        self.array, self._versioned, self._device = array, versioned, device

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device, 0

    def __dlpack__(self, **options: Any) -> object:
        if not self._versioned:
            options.pop("max_version", None)
        return self.array.__dlpack__(**options)


class ForeignExtension(Foreign):
    """A tensor of an element type that NumPy cannot export by DLPack, such as bfloat16."""

    def __dlpack__(self, **options: Any) -> object:
        spec = TensorSpec("x", self.array.shape, self.array.dtype)
        return lend(self.array.ctypes.data, spec, (CPU, 0), self.array)


class ForeignBits(ForeignExtension):
    """A tensor of integers with a number of bits that no NumPy type has."""

    def __init__(self, array: Any, bits: int) -> None:
        super().__init__(array)
        self._bits = bits

    def __dlpack__(self, **options: Any) -> object:
        capsule = super().__dlpack__(**options)
        pointer: Any = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        # The bits follow the address, the device, the rank and the type code.
        ctypes.c_uint8.from_address(pointer(capsule, b"dltensor") + 21).value = self._bits
        return capsule


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize("x", [X, X.T.copy().T], ids=["dense", "strided"])
def test_tensors_of_other_libraries_are_taken(
    doubler: Executable, x: np.ndarray[Any, np.dtype[Any]], versioned: bool
) -> None:
    """Tensors of other libraries are accepted as inputs and as outputs by DLPack.

    Outputs are written in place.
    """
    y = np.zeros((3, 5), np.float32)
    out = Foreign(y, versioned=versioned)
    found = doubler.run({"x": Foreign(x, versioned=versioned)}, out={"y": out})
    assert found["y"] is out
    assert np.array_equal(y, X + X)
    taken = np.from_dlpack(doubler.run({"x": X})["y"])
    assert np.array_equal(taken, X + X)


def test_element_types_that_numpy_lacks_are_taken() -> None:
    """Tensors of bfloat16 are accepted by DLPack, although NumPy's own DLPack refuses them."""
    x = values(ml_dtypes.bfloat16, (2, 67))
    y = np.zeros_like(x)
    with program("bf16", (2, 67)).build() as executable:
        executable.run({"x": ForeignExtension(x)}, out={"y": ForeignExtension(y)})
    assert np.array_equal(y, x + x)


def test_floats_of_eight_bits_are_handed_over_and_narrower_elements_are_not() -> None:
    for name in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"):
        x = np.arange(5).astype(np.dtype(getattr(ml_dtypes, name)))
        taken = readable(ForeignExtension(x), "x")
        assert taken.dtype == x.dtype
        assert np.array_equal(taken, x)
    with pytest.raises(BufferError, match="int4"):
        ForeignExtension(np.arange(5).astype(ml_dtypes.int4)).__dlpack__()


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2)], ids=str)
def test_foreign_tensors_of_any_size(shape: tuple[int, ...]) -> None:
    """Scalars and tensors without elements are accepted by DLPack."""
    x, y = values(np.float32, shape), np.zeros(shape, np.float32)
    with program("f32", shape).build() as executable:
        executable.run({"x": Foreign(x)}, out={"y": Foreign(y)})
    assert np.array_equal(y, x + x)


BAD_FOREIGN: dict[str, tuple[Any, Any, str]] = {
    "input elsewhere": (Foreign(X, device=2), None, "input 'x': expected a tensor in the host's"),
    "output elsewhere": (X, Foreign(X, device=2), "output 'y': expected a tensor in the host's"),
    "read-only": (X, Foreign(READ_ONLY), "output 'y': expected a tensor that DLPack can hand over"),
    "strided": (X, Foreign(np.zeros((5, 3), "f").T), "output 'y': expected a dense tensor"),
    "shape": (X, Foreign(np.zeros((5, 3), "f")), "output 'y': expected shape 3x5, found 5x3"),
    "dtype": (Foreign(X.astype("f8")), None, "input 'x': expected dtype float32, found float64"),
    "four bits": (X, ForeignBits(X.astype("i1"), 4), "output 'y': expected a dense tensor"),
    "24 bits": (X, ForeignBits(X.astype("i4"), 24), "output 'y': expected a dense tensor"),
    "the input": (X, Foreign(X), "output 'y': expected memory of its own"),
}


@pytest.mark.parametrize(("x", "y", "message"), BAD_FOREIGN.values(), ids=BAD_FOREIGN)
def test_bad_foreign_tensors_are_refused(doubler: Executable, x: Any, y: Any, message: str) -> None:
    """A wrong tensor of another library is refused with a message of one line."""
    with pytest.raises(InputError) as caught:
        doubler.run({"x": x}, out={"y": y})
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_an_output_that_is_none_is_allocated(doubler: Executable) -> None:
    """None in ``out`` has the same effect as leaving the output out."""
    out: Any = {"y": None}
    assert np.array_equal(doubler.run({"x": X}, out=out)["y"], X + X)


def test_runs_with_buffers_of_their_own_allocate_nothing(doubler: Executable) -> None:
    """Runs that are given inputs and outputs allocate no memory that stays."""
    feeds, out = {"x": X}, {"y": np.zeros((3, 5), np.float32)}
    for _ in range(10):
        doubler.run(feeds, out=out)
    tracemalloc.start(25)
    try:
        before = tracemalloc.take_snapshot()
        for _ in range(1000):
            doubler.run(feeds, out=out)
        growth = tracemalloc.take_snapshot().compare_to(before, "filename")
    finally:
        tracemalloc.stop()
    assert sum(s.size_diff for s in growth if "rammer_mlir/runtime" in str(s.traceback)) < 2000


def test_nan_and_infinity_pass_through(doubler: Executable) -> None:
    """NaN, infinities and signed zeros are computed as IEEE arithmetic demands."""
    x = np.array([[np.nan, np.inf, -np.inf, -0.0, 1e38]] * 3, dtype=np.float32)
    with np.errstate(over="ignore"):
        expected = x + x
    y = doubler(x)
    assert np.array_equal(y, expected, equal_nan=True)
    assert np.array_equal(np.signbit(y[:, 1:]), np.signbit(expected[:, 1:]))


def test_positional_calls_check_the_number_of_arrays(doubler: Executable) -> None:
    """A call with positional arrays needs exactly one array for each input."""
    with pytest.raises(InputError, match="expected 1 inputs, found 2"):
        doubler(X, X)


@pytest.mark.parametrize("element", ["f32", "bf16", "i8"])
def test_new_large_outputs_begin_at_a_cache_line(element: str) -> None:
    shape = (3, LARGE)
    x = values(np.int8, (1, LARGE)).astype(TYPES[element][0]).repeat(3, 0)
    with program(element, shape).build() as executable:
        (found,) = executable.run({"x": x}).values()
    assert address_of(found) % ALIGNMENT == 0
    assert (found.shape, found.dtype) == (x.shape, x.dtype)
    assert found.flags.writeable
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, (np.multiply if element == "i8" else np.add)(x, x))
