"""Tests that compiled code executes call lists: it makes their calls, until one fails.

Buffers are bound to the called library, or copied to bound memory.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import pytest

from rammer_mlir.bindings import ir
from rammer_mlir.engines.call_list import ANY_BIT, LOW_HALF, Bound, Call, CallList, Word
from rammer_mlir.lowering.external import call_list
from rammer_mlir.lowering.llvm.codegen import emit_object
from rammer_mlir.lowering.llvm.jit import load_object
from rammer_mlir.lowering.llvm.machine import host_machine
from rammer_mlir.lowering.llvm.translation import to_llvm_ir
from rammer_mlir.programs.native_interface import BOUND, CALL, CALL_LIST, RUN_CALLS

Run = Callable[[CallList, Sequence[int]], int]

EIGHT = ctypes.CFUNCTYPE(ctypes.c_uint64, *[ctypes.c_uint64] * 8)


@pytest.fixture(scope="module")
def run() -> Run:
    """Return a function that executes a call list in native code, on buffers at given addresses.

    The function returns 1 if a call fails, else 0.
    """
    with ir.Context(), ir.Location.unknown():
        object_file = emit_object(to_llvm_ir(call_list.call_list_module()), host_machine())
    library = load_object(object_file)
    kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
    function = kind(library.address(RUN_CALLS))

    def call(calls: CallList, buffers: Sequence[int]) -> int:
        assert library
        pointers = (ctypes.c_void_p * len(buffers))(*buffers)
        return function(calls.address, 0, ctypes.addressof(pointers))

    return call


class Recorder:
    """A C function that records the arguments of its calls, and returns ``result``."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, ...]] = []
        self.result = 0
        self._callback: Any = EIGHT(self._record)
        self.address = ctypes.cast(self._callback, ctypes.c_void_p).value or 0

    def _record(self, *arguments: int) -> int:
        self.calls.append(arguments)
        return self.result


def test_arguments(run: Run) -> None:
    """Arguments are constants or words in memory; missing arguments are zero.

    A word with ``is_taken`` is set to zero after it is read.
    """
    recorder, word = Recorder(), ctypes.c_uint64(77)
    where = ctypes.addressof(word)
    calls = [
        Call(recorder.address, (1 << 63, Word(where), 2, 3, 4, 5, 6, (1 << 64) - 1)),
        Call(recorder.address, (1, Word(where, is_taken=True))),
        Call(recorder.address, (Word(where), where)),
        Call(recorder.address, ()),
    ]
    assert run(CallList(calls, {}), []) == 0
    assert recorder.calls == [
        (1 << 63, 77, 2, 3, 4, 5, 6, (1 << 64) - 1),
        (1, 77, *[0] * 6),
        (0, where, *[0] * 6),
        (0,) * 8,
    ]
    with pytest.raises(AssertionError, match="more arguments"):
        CallList([Call(recorder.address, (0,) * 9)], {})


def test_the_first_failure_ends_a_run(run: Run) -> None:
    """A call fails if its result has a bit of the call's mask; no further call is made."""
    recorder = Recorder()
    high = 1 << 40
    for mask, result, status in (
        (ANY_BIT, high, high),
        (LOW_HALF, high, 0),
        (LOW_HALF, high | 0xFFFFFFF2, 0xFFFFFFF2),
        (0, ANY_BIT, 0),
    ):
        recorder.result = result
        recorder.calls.clear()
        calls = CallList([Call(recorder.address, (n,), mask) for n in range(3)], {})
        assert run(calls, []) == bool(status)
        assert len(recorder.calls) == (1 if status else 3)
        assert (calls.take_status(), calls.take_status()) == (status, 0)


def test_buffers_are_bound_when_they_move(run: Run) -> None:
    recorder, computing = Recorder(), Recorder()

    def binding(number: int) -> Bound:
        return Bound(lambda address: [Call(recorder.address, (number, address), ANY_BIT)])

    bound = {number: binding(number) for number in (2, 0)}
    calls = CallList([Call(computing.address, ())], bound)
    for buffers in ([10, 11, 12], [10, 11, 12], [10, 13, 14], [15, 13, 14], [10, 11, 12]):
        assert run(calls, buffers) == 0
    pairs = [each[:2] for each in recorder.calls]
    assert pairs == [(2, 12), (0, 10), (2, 14), (0, 15), (2, 12), (0, 10)]
    assert len(computing.calls) == 5
    recorder.result = 9
    assert run(calls, [10, 11, 16]) == 1
    assert (calls.take_status(), len(computing.calls)) == (9, 5)
    recorder.result = 0
    assert run(calls, [10, 11, 16]) == 0, "what could not be bound is bound by the next run"
    assert [each[:2] for each in recorder.calls[6:]] == [(2, 16), (2, 16)]


def test_buffers_that_move_are_copied(run: Run) -> None:
    """A buffer's first address is bound; a buffer that moved is copied to and from bound memory."""
    recorder = Recorder()
    words = (ctypes.c_uint64 * 2)()
    move = ctypes.cast(ctypes.CDLL(None).memcpy, ctypes.c_void_p).value or 0

    def binding(number: int) -> Bound:
        word = ctypes.addressof(words) + 8 * number
        return Bound(
            lambda address: [
                Call(move, (word, address.address, 8)),
                Call(recorder.address, (number,), ANY_BIT),
            ],
            is_output=number == 1,
            copied_bytes=5,
        )

    compute = Call(move, (Word(ctypes.addressof(words) + 8), Word(ctypes.addressof(words)), 5))
    failing = Recorder()
    calls = CallList(
        [compute, Call(failing.address, (), ANY_BIT)], {n: binding(n) for n in range(2)}
    )
    x, y = (np.arange(40, dtype=np.uint8).reshape(4, 10) for _ in range(2))

    def check(left: int, right: int, bound: Sequence[int]) -> None:
        x[:] += 7
        recorder.calls.clear()
        assert run(calls, [x[left].ctypes.data, y[right].ctypes.data]) == 0
        assert [each[0] for each in recorder.calls] == list(bound)
        assert y[right, :5].tolist() == x[left, :5].tolist()
        assert y[right, 5:].tolist() == list(range(10 * right + 5, 10 * right + 10))

    check(0, 0, [0, 1])
    assert list(words) == [x[0].ctypes.data, y[0].ctypes.data]
    check(0, 0, [])
    recorder.result = 1
    assert run(calls, [x[0].ctypes.data, y[1].ctypes.data]) == 1
    recorder.result = 0
    check(0, 1, [1])
    assert words[1] == y[1].ctypes.data, "what could not be bound is bound where it is"
    check(0, 2, [1])
    assert words[1] not in range(y.ctypes.data, y.ctypes.data + y.nbytes)
    check(2, 3, [0])
    check(1, 0, [])
    failing.result, y[1, :5] = 1, 0
    assert run(calls, [x[0].ctypes.data, y[1].ctypes.data]) == 1
    assert not y[1, :5].any(), "a run that failed writes nothing"


def test_the_text_has_no_name_too_few_or_too_many() -> None:
    text = Path(call_list.__file__).with_suffix(".mlir").read_text()
    layouts = {"list": CALL_LIST, "bound": BOUND, "call": CALL}
    offsets = {f"{name}_{field}" for name, kind in layouts.items() for field in kind.names or ()}
    first = {"list_status", "bound_buffer", "call_function"}  # at offset 0
    rows = {"bound_bytes", "call_bytes"}
    names = (offsets - first) | rows | {"run_calls", "num_arguments"}
    assert set(Template(text).get_identifiers()) == names
