"""Tests how many microseconds a call of foreign code takes beyond the library's own time."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rammer_mlir.benchmarks import calls
from rammer_mlir.benchmarks.report import Report, text
from rammer_mlir.benchmarks.timing import take_turns
from rammer_mlir.codegens import Region, RegionCode
from rammer_mlir.codegens.iree.codegen import Iree
from rammer_mlir.codegens.onednn.codegen import CODE
from rammer_mlir.engines.call_list import LOW_HALF, Call, CallList
from rammer_mlir.engines.functions import call_for_status, call_function
from rammer_mlir.engines.requirements import find_function, open_libraries
from rammer_mlir.lowering.llvm.link import link_shared
from rammer_mlir.programs.native_interface import RUN_CALLS
from rammer_mlir.support.aligned import address_of, aligned_bytes

STEPS = 2000
"""The number of calls that are timed together."""

ATTEMPTS = 20
"""The largest number of repetitions of a measurement that other processes disturb."""


def test_calls_cost_little_more_than_their_libraries(capsys: pytest.CaptureFixture[str]) -> None:
    """A call adds less than 3 us to its library's time, in the lower quartile of the times."""
    measured = {each.form: each for each in calls.measure_calls(budget=0)}
    host = measured.pop(calls.HOST)
    assert host.own is None
    assert set(measured) == {*calls.LINKED, "onednn", *calls.ENGINES_MEASURED}
    with_own = {form: each.own for form, each in measured.items() if each.own is not None}
    assert set(with_own) == {*calls.LINKED, "onnxruntime", "openvino"}
    for form, own in with_own.items():
        for launch in (measured[form].fixed, measured[form].moving):
            assert launch.low - own.low < 3e-6, form
    assert "added, moving" in text(Report(calls=[host, *measured.values()]))


@pytest.fixture
def codes(monkeypatch: pytest.MonkeyPatch) -> list[RegionCode]:
    """Return a list that receives the code of IREE's regions."""
    found: list[RegionCode] = []
    generate: Callable[[Iree, Region], RegionCode | None] = Iree.generate

    def spied(self: Iree, region: Region) -> RegionCode | None:
        code = generate(self, region)
        found.extend([] if code is None else [code])
        return code

    monkeypatch.setattr(Iree, "generate", spied)
    return found


def test_calls_of_objects_and_of_c_add_at_most_half_a_microsecond(
    codes: list[RegionCode], tmp_path: Path
) -> None:
    """A call adds less than half a microsecond to the library's own time.

    Other processes only make calls slower, so that the least time of several attempts counts.
    The library's own time is that of the same code without a program around it: a loop over a C
    function, over the function in IREE's object, or over oneDNN's execution of a primitive. The
    loops over the last two are lists of calls, which a native interpreter makes.
    """
    pytest.importorskip("iree.compiler")
    known: Any = calls
    memory = known._Memory.of(calls.ROWS, calls.SIZE)
    forms = [*calls.LINKED, "onednn", "iree"]
    turns: dict[str, Callable[[], list[float]]] = {}
    with ExitStack() as stack:
        for form in forms:
            name = stack.enter_context(known._registered(form, calls.ROWS, calls.SIZE))
            exe = stack.enter_context(known._compiled(memory, name))
            launches = known._turns(exe, memory)
            turns |= {f"{form} {what}": launches[what] for what in ("fixed", "moving")}
        owns = {form: (known._loop_in_c(memory), memory.steps) for form in calls.LINKED}
        (code,) = codes
        owns |= {
            "onednn": (own_of_onednn(stack), STEPS),
            "iree": (own_of_iree(code, tmp_path), STEPS),
        }
        turns |= {f"{form} own": partial(known._turn, *own) for form, own in owns.items()}
        least = dict.fromkeys(turns, float("inf"))
        for _ in range(ATTEMPTS):
            least = {n: min(least[n], time.low) for n, time in take_turns(turns, 0).items()}
            if not too_slow(least):
                break
    assert too_slow(least) == {}


def too_slow(seconds: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds that each slow launch adds to its library's own time, by name.

    A launch is slow if it adds at least 0.5 µs. ``seconds`` has the times of launches and, under
    names that end in "own", of libraries.
    """
    added = {
        name: time - seconds[f"{name.rpartition(' ')[0]} own"] for name, time in seconds.items()
    }
    return {name: time for name, time in added.items() if time >= 0.5e-6}


def repeated(call: Call) -> Callable[[], object]:
    """Return a function that makes the C call ``call`` ``STEPS`` times, in a native loop."""
    known: Any = calls
    library = known._call_lists()
    kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
    run, listed = kind(library.address(RUN_CALLS)), CallList([call] * STEPS, {})

    def loop() -> None:
        assert not run(listed.address, 0, 0) and library

    return loop


def product_memory() -> list[Any]:
    """Return three f32 arrays of ones, aligned as IREE's code needs them.

    Their shapes are those of the rows, of the matrix, and of the product of both.
    """
    shapes = ((calls.ROWS, calls.SIZE), (calls.SIZE, calls.SIZE), (calls.ROWS, calls.SIZE))
    arrays = [aligned_bytes(4 * m * n).view(np.float32).reshape(m, n) for m, n in shapes]
    for array in arrays:
        array[...] = 1
    return arrays


def own_of_iree(code: RegionCode, folder: Path) -> Callable[[], object]:
    """Return a function that repeatedly calls IREE's code of a product, and checks the results.

    The calls are made without a program around them. ``code`` is the code of the region, which is
    linked to a library in ``folder``.
    """
    path, arrays = folder / "product.so", product_memory()
    assert isinstance(code.code, bytes) and code.num_rtasks == 1
    path.write_bytes(link_shared(code.code, *code.objects))
    address = find_function([ctypes.CDLL(str(path))], code.symbol)
    loop = repeated(Call(address, (0, *map(address_of, arrays)), LOW_HALF))

    def checked() -> None:
        arrays[2][...] = 0
        loop()
        assert (arrays[2] == calls.SIZE).all()

    return checked


def own_of_onednn(stack: ExitStack) -> Callable[[], object]:
    """Return a function that lets oneDNN compute a product ``STEPS`` times on one thread.

    The product is computed by oneDNN's C functions, without a program. At its end, ``stack``
    restores OpenMP's number of threads. The integers in the code are constants of oneDNN's C
    interface, as in ``build.c``: for the CPU, for f32, for the layout of weights that a primitive
    chooses, and for the operands.
    """
    find = partial(find_function, open_libraries(CODE.module))

    def made(name: str, *arguments: int | None) -> int:
        found = ctypes.c_void_p()
        status = call_for_status(find(f"dnnl_{name}"), ctypes.addressof(found), *arguments)
        assert status == 0 and found.value
        return found.value

    def numbers(*values: int) -> int:
        kept.append((ctypes.c_int64 * len(values))(*values))
        return ctypes.addressof(kept[-1])

    kept: list[Any] = [product_memory()]
    rows, size, (x, _, y) = calls.ROWS, calls.SIZE, kept[0]
    threads, use_threads = (find(f"omp_{name}") for name in ("get_max_threads", "set_num_threads"))
    before = call_for_status(threads)
    stack.callback(call_function, use_threads, before)
    call_function(use_threads, 1)
    engine = made("engine_create", 1, 0)
    stream = made("stream_create", engine, 1)
    plain = made("memory_desc_create_with_strides", 2, numbers(rows, size), 3, numbers(size, 1))
    free = made("memory_desc_create_with_tag", 2, numbers(size, size), 3, 1)
    described = made("matmul_primitive_desc_create", engine, plain, free, None, plain, None)
    primitive, information = made("primitive_create", described), ctypes.c_char_p()
    asked = (described, 8, 0, ctypes.addressof(information))
    assert call_for_status(find("dnnl_primitive_desc_query"), *asked) == 0
    assert not (information.value or b"ref").startswith(b"ref"), "as fast as in regions"
    packed = call_function(find("dnnl_primitive_desc_query_md"), described, 255, 33)
    kept.append(aligned_bytes(call_function(find("dnnl_memory_desc_get_size"), packed)))
    operands = {1: (plain, x), 33: (packed, kept[-1]), 17: (plain, y)}
    arguments: list[int] = []
    for name, (layout, array) in operands.items():
        arguments += [name, made("memory_create", layout, engine, address_of(array))]
    listed = numbers(*arguments)
    call_function(use_threads, before)
    execute = find("dnnl_primitive_execute")
    loop = repeated(Call(execute, (primitive, stream, len(operands), listed), LOW_HALF))

    def on_one_thread() -> None:
        y[...] = 1
        call_function(use_threads, 1)
        loop()
        call_function(use_threads, before)
        assert kept and not y.any(), "a product with a weight of zeros"

    return on_one_thread
