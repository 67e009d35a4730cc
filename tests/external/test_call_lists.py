"""Lists of C calls, made by compiled code: what is bound, copied, taken, and what fails."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import pytest

from rammer_mlir.bindings import ir
from rammer_mlir.engines.call_list import ANY_BIT, LOW_HALF, Bind, Call, CallList, Word
from rammer_mlir.lowering.external import call_list
from rammer_mlir.lowering.llvm.codegen import emit_object, to_llvm_ir
from rammer_mlir.lowering.llvm.jit import load_object
from rammer_mlir.lowering.llvm.machine import host_machine
from rammer_mlir.programs.native_interface import BOUND, CALL, CALL_LIST, COPIED, RUN_CALLS

Run = Callable[[CallList, Sequence[int]], int]

EIGHT = ctypes.CFUNCTYPE(ctypes.c_uint64, *[ctypes.c_uint64] * 8)


@pytest.fixture(scope="module")
def run() -> Run:
    """Return what runs a list on buffers."""
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
    """A C function that remembers its arguments, and returns what it is told to."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, ...]] = []
        self.result = 0
        self._callback: Any = EIGHT(self._record)
        self.address = ctypes.cast(self._callback, ctypes.c_void_p).value or 0

    def _record(self, *arguments: int) -> int:
        self.calls.append(arguments)
        return self.result


def test_arguments(run: Run) -> None:
    """They are numbers, words and words that are taken, up to eight; others are zero."""
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
    """The bits of a result that count are those of the mask."""
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

    def binding(number: int) -> Bind:
        return lambda address: [Call(recorder.address, (number, address), ANY_BIT)]

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


def test_buffers_are_copied(run: Run) -> None:
    """Memory of the list is filled before the calls, and written to buffers behind them."""
    inside, outside = np.zeros(5, np.uint8), np.zeros(3, np.uint8)
    x, y = np.arange(5, dtype=np.uint8), np.zeros(3, np.uint8)
    move = ctypes.cast(ctypes.CDLL(None).memcpy, ctypes.c_void_p).value or 0
    copy = Call(move, (outside.ctypes.data, inside.ctypes.data + 1, 3))
    calls = CallList([copy], {}, {0: inside}, {1: outside})
    for _ in range(2):
        x += 10
        assert run(calls, [x.ctypes.data, y.ctypes.data]) == 0
        assert y.tolist() == x[1:4].tolist()
    recorder = Recorder()
    recorder.result = 1
    calls = CallList([copy, Call(recorder.address, (), ANY_BIT)], {}, {0: inside}, {1: outside})
    y[:] = 0
    assert run(calls, [x.ctypes.data, y.ctypes.data]) == 1
    assert not y.any(), "a run that failed writes nothing"


def test_the_text_has_no_name_too_few_or_too_many() -> None:
    text = Path(call_list.__file__).with_suffix(".mlir").read_text()
    layouts = {"list": CALL_LIST, "bound": BOUND, "copied": COPIED, "call": CALL}
    offsets = {f"{name}_{field}" for name, kind in layouts.items() for field in kind.names or ()}
    first = {"list_status", "bound_buffer", "copied_buffer", "call_function"}  # at offset 0
    rows = {"bound_bytes", "copied_bytes", "call_bytes"}
    names = (offsets - first) | rows | {"run_calls", "num_arguments"}
    assert set(Template(text).get_identifiers()) == names
