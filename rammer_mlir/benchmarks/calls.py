"""Measure the cost of calling foreign code: ``python -m rammer_mlir.benchmarks.calls``.

The program is a matrix product, ``[M, N]`` times ``[N, N]``, which foreign code computes. There are
three kinds of foreign code: C functions that are linked with the program, a function of oneDNN, and
the inference of an engine. A loop in native code launches the program, so that no interpreter runs
between launches. Another native loop calls the foreign code without the program, which gives the
foreign code's own time. The difference of the two times is the cost of the call.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper, parser

import rammer_mlir
from rammer_mlir.benchmarks.machine import table
from rammer_mlir.benchmarks.timing import Latency, take_turns
from rammer_mlir.bindings import ir
from rammer_mlir.codegens import Device, EntryHost, Limits, Reading, Region, RegionCode, RegionFacts
from rammer_mlir.engines.call_list import CallList
from rammer_mlir.engines.engine import ENGINES
from rammer_mlir.engines.requirements import find_function, open_libraries
from rammer_mlir.errors import TargetError
from rammer_mlir.lowering.external.c_compiler import compile_c
from rammer_mlir.lowering.external.call_list import call_list_module
from rammer_mlir.lowering.external.code import ForeignCode
from rammer_mlir.lowering.llvm.codegen import emit_object
from rammer_mlir.lowering.llvm.jit import Library, load_object
from rammer_mlir.lowering.llvm.machine import host_machine
from rammer_mlir.lowering.llvm.translation import to_llvm_ir
from rammer_mlir.passes.regions.codegen import CODEGENS, register_codegen
from rammer_mlir.passes.regions.patterns import CompositePattern
from rammer_mlir.programs.json_graph import Graph, GraphNode, GraphTensor
from rammer_mlir.programs.module_options import complete
from rammer_mlir.programs.modules import CodeModule
from rammer_mlir.programs.native_interface import RUN_CALLS
from rammer_mlir.runtime.executable import Executable
from rammer_mlir.runtime.repetition import Moving
from rammer_mlir.support.aligned import address_of

ROWS, SIZE = 1, 4
"""Rows, and columns, of the product: with few elements, the call takes most of the time."""

CALLS = (
    "Calls of code from elsewhere, median [quartiles] in microseconds. Launch: a program of one "
    "product in a loop of native code; moving: with its arrays elsewhere each time; added: what a "
    "launch takes beside the library's own call; run: `Executable.run`"
)

HOST = "host"

ENGINES_MEASURED = ("numpy", "onnxruntime", "openvino")

SOURCE = """
#include <stdint.h>
__attribute__((noinline)) int32_t NAME(int64_t rtask, const float *x, const float *w, float *y) {
  for (int64_t i = 0; i < ROWS; i++) {
    for (int64_t j = 0; j < SIZE; j++) y[i * SIZE + j] = 0;
    for (int64_t k = 0; k < SIZE; k++)
      for (int64_t j = 0; j < SIZE; j++) y[i * SIZE + j] += x[i * SIZE + k] * w[k * SIZE + j];
  }
  return 0;
}
int32_t NAME_open(void **state, const void *host) { return 0; }
int32_t NAME_run(void *state, int64_t rtask, void *const *buffers) {
  return NAME(rtask, buffers[0], buffers[1], buffers[2]);
}
void NAME_close(void *state) {}
void NAME_loop(int64_t count, void *const *buffers) {
  for (int64_t n = 0; n < count; n++) {
    NAME(0, buffers[0], buffers[1], buffers[2]);
    __asm__ volatile("" ::: "memory");
  }
}
"""


@dataclass(frozen=True)
class CallTime:
    """Times of a matrix product that one kind of code computes: foreign code, or an own rKernel.

    All times are processor seconds of the calling thread. Each sample of a time is a mean over many
    consecutive launches or calls.

    Attributes:
        form: the kind of code: "host" for the compiler's own rKernel, a key of ``LINKED`` for
            linked code, "onednn", or an engine's name.
        fixed: time of a launch with the same arrays as the previous launch.
        moving: time of a launch with other input and output arrays than the previous launch.
        own: time of a direct call of the foreign code on the same arrays, without a program; None
            if not measured.
        run: time of a call of ``Executable.run``.
    """

    form: str
    fixed: Latency
    moving: Latency
    own: Latency | None
    run: Latency


@dataclass(frozen=True)
class _Products:
    """A code generator of C functions for matrix products ``[rows, size]`` times ``[size, size]``.

    Attributes:
        name: name under which the code generator is registered.
        form: form of the generated code: "c" for C source, "object" for object code.
        has_state: whether the code has a state, with functions that open and close the state.
        rows: rows of the product.
        size: columns and reduction dimension of the product.
    """

    name: str
    form: str
    has_state: bool
    rows: int
    size: int

    def patterns(self) -> Sequence[CompositePattern]:
        return ()

    def supports(self, reading: Reading) -> bool:
        return reading.kind == "matmul"

    def limits(self) -> Limits:
        return Limits()

    def worth(self, facts: RegionFacts, device: Device) -> bool:
        return True

    def generate(self, region: Region) -> RegionCode:
        code = source(region.name, self.rows, self.size).encode()
        if self.form == "object":
            code = compile_c(ForeignCode(self.name, "c", code), host_machine())
        return RegionCode(
            code, region.name, self.form, has_state=self.has_state, holds_weights=self.has_state
        )


def source(name: str, rows: int, size: int) -> str:
    """Return the C source of function ``name``: a product [rows, size] times [size, size]."""
    return SOURCE.replace("NAME", name).replace("ROWS", str(rows)).replace("SIZE", str(size))


LINKED: Mapping[str, tuple[str, bool]] = {
    "object": ("object", False),
    "C": ("c", False),
    "C with a state": ("c", True),
}
"""Forms of foreign code that is linked with our own code, by their names in the table.

The values are the form of the code's module, and whether the code has a state.
"""


@dataclass(frozen=True)
class _Memory:
    """The arrays of the measured product ``y = x @ w``, with two inputs x and two outputs y.

    Launches with fixed arrays use x0 and y0. Launches with moving arrays use (x0, y0) and (x1, y1)
    in turns.
    """

    x0: Any
    x1: Any
    w: Any
    y0: Any
    y1: Any

    @classmethod
    def of(cls, rows: int, size: int) -> _Memory:
        x0, x1, y0, y1 = (np.ones((rows, size), np.float32) for _ in range(4))
        w = np.arange(size * size, dtype=np.float32).reshape(size, size)
        return cls(x0, x1, w / size, y0, y1)

    @property
    def steps(self) -> int:
        """Number of consecutive launches that are timed together; their mean time is one sample.

        Many launches hide Python's overhead of tens of microseconds per sample. Larger products
        have fewer launches per sample.
        """
        return max(500, min(5000, (1 << 18) // (len(self.x0) * self.w.size)))

    @property
    def buffers(self) -> ctypes.Array[ctypes.c_void_p]:
        """The addresses of x0, w and y0 as a C array, as stateful functions receive them."""
        return (ctypes.c_void_p * 3)(*map(address_of, (self.x0, self.w, self.y0)))


def measure_calls(rows: int = ROWS, size: int = SIZE, budget: float = 20.0) -> list[CallTime]:
    """Time a matrix product with each kind of foreign code; return the times of each kind.

    Runs of all kinds are interleaved. The compiler's own rKernel is measured too.

    Args:
        rows: rows of the product.
        size: columns and reduction dimension of the product.
        budget: seconds for all kinds together.
    """
    memory = _Memory.of(rows, size)
    with ExitStack() as stack:
        forms: dict[str, Executable] = {HOST: _compiled(memory, None)}
        for form in (*LINKED, "onednn", *ENGINES_MEASURED):
            name = stack.enter_context(_registered(form, rows, size))
            forms[form] = _compiled(memory, name)
        owns = {form: _own(form, memory) for form in forms}
        turns: dict[str, Callable[[], list[float]]] = {}
        for form, executable in forms.items():
            stack.enter_context(executable)
            turns |= {f"{form} {what}": turn for what, turn in _turns(executable, memory).items()}
            if (own := owns[form]) is not None:
                turns[f"{form} own"] = partial(_turn, own, memory.steps)
        found = take_turns(turns, budget)
    return [
        CallTime(
            form, found[f"{form} fixed"], found[f"{form} moving"], found.get(f"{form} own"),
            found[f"{form} run"],
        )
        for form in forms
    ]  # fmt: skip


@contextmanager
def _registered(form: str, rows: int, size: int) -> Generator[str]:
    """Yield the name of the code generator for ``form``, registered while the context is open.

    A ``form`` in ``LINKED`` gets a new code generator. Any other ``form`` is the name of a
    registered code generator, and is yielded unchanged.
    """
    if form not in LINKED:
        yield form
        return
    codegen: Any = _Products(f"calls_{form.lower()}".replace(" ", "_"), *LINKED[form], rows, size)
    register_codegen(codegen)
    try:
        yield codegen.name
    finally:
        CODEGENS.unregister(codegen.name)


def _compiled(memory: _Memory, codegen: str | None) -> Executable:
    kind = "float[{},{}]".format(*memory.x0.shape)
    text = f'<ir_version: 10, opset_import: ["": 20]> g ({kind} x) => ({kind} y) {{'
    model: onnx.ModelProto = parser.parse_model(f"{text} y = MatMul(x, w) }}")
    model.graph.initializer.append(numpy_helper.from_array(memory.w, "w"))
    given: dict[str, Any] = {} if codegen is None else {"offload": codegen}
    found = rammer_mlir.compile(model, num_veus=1, cache=False, offload_choice="always", **given)
    assert isinstance(found, Executable)
    if bool(found.image.modules) == (codegen is None):
        raise TargetError(f"{codegen or HOST}: expected a call, found {found.image.modules}")
    return found


def _turns(executable: Executable, memory: _Memory) -> dict[str, Callable[[], list[float]]]:
    fixed = [Moving.fixed(memory.x0)], [Moving.fixed(memory.y0)]
    moving = [Moving(memory.x0, memory.x1, 0)], [Moving(memory.y0, memory.y1, 0)]
    feeds = {"x": memory.x0}

    def run() -> None:
        for _ in range(memory.steps):
            executable.run(feeds)

    found = {
        "fixed": lambda: executable.repeat(memory.steps, *fixed),
        "moving": lambda: executable.repeat(memory.steps, *moving),
        "run": run,
    }
    return {what: partial(_turn, launch, memory.steps) for what, launch in found.items()}


def _turn(launch: Callable[[], object], steps: int) -> list[float]:
    """Call ``launch`` twice, time the second call, and return the mean seconds of a program launch.

    A call of ``launch`` makes ``steps`` program launches. The result is a list of one element
    because ``take_turns`` expects a list of samples.
    """
    launch()
    begin = time.thread_time()
    launch()
    return [(time.thread_time() - begin) / steps]


def _own(form: str, memory: _Memory) -> Callable[[], object] | None:
    """Return a function that calls the foreign code of kind ``form`` without a compiled program.

    Each call of the function makes ``memory.steps`` calls of the foreign code. The result is None
    if the foreign code cannot be called without a program.
    """
    if form in LINKED:
        return _loop_in_c(memory)
    if form in ENGINES_MEASURED:
        return _loop_of_calls(form, memory)
    return None


def _loop_in_c(memory: _Memory) -> Callable[[], object]:
    code = ForeignCode("product", "c", source("product", *memory.x0.shape).encode())
    library = load_object(compile_c(code, host_machine()))
    kind = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)
    function, buffers = kind(library.address("product_loop")), memory.buffers
    return lambda: (function(memory.steps, ctypes.addressof(buffers)), library)


def _loop_of_calls(engine: str, memory: _Memory) -> Callable[[], object] | None:
    """Return a function that executes an engine's C calls for ``memory.steps`` inferences.

    The result is None if the engine does not describe its inference as a call list, a list of
    calls of C functions.
    """
    named = (("x", memory.x0), ("w", memory.w), ("y", memory.y0))
    x, w, y = (GraphTensor(name, array.shape) for name, array in named)
    graph = Graph("product", (x, w), (y,), (), (GraphNode("MatMul", ("x", "w"), ("y",)),))
    needs = getattr(CODEGENS.get(engine), "needs", ())
    module = CodeModule("product", "graph", engine, graph.to_json(), needs)
    find = partial(find_function, open_libraries(module))
    library = _call_lists()
    address = library.address(RUN_CALLS)
    weights = (None, address_of(memory.w), None)
    found = ENGINES.get(engine)
    options = complete(getattr(found, "options", ()), {})
    entry = found.open(EntryHost(module, "product", weights, find, address, options))
    if not isinstance(entry.owner, CallList):
        return None
    kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
    run, buffers = kind(address), memory.buffers
    # The first call also binds the buffers, so that the repeated calls need not.
    assert not run(entry.state, 0, ctypes.addressof(buffers)), "bound"
    # A single list for the whole sample, so that Python is entered once per sample.
    repeated = CallList(entry.owner.calls * memory.steps, {})
    return lambda: (run(repeated.address, 0, ctypes.addressof(buffers)), entry, library)


def _call_lists() -> Library:
    """Compile and load a library whose function ``RUN_CALLS`` executes a list of C calls."""
    with ir.Context(), ir.Location.unknown():
        return load_object(emit_object(to_llvm_ir(call_list_module()), host_machine()))


def call_table(times: Sequence[CallTime]) -> str:
    """Return a Markdown table of times in microseconds, with a row for each kind of foreign code.

    A row has the time of a launch of the program, the time of a direct call of the foreign code,
    and the difference of the two times.
    """
    rows = [["form", "launch us", "moving", "library's own", "added", "added, moving", "run"]]
    for each in times:
        added = ["-", "-"]
        if (own := each.own) is not None:
            added = [f"{1e6 * (t.median - own.median):.2f}" for t in (each.fixed, each.moving)]
        latencies = map(_microseconds, (each.fixed, each.moving, each.own))
        rows.append([each.form, *latencies, *added, _microseconds(each.run)])
    return table(rows)


def _microseconds(time: Latency | None) -> str:
    if time is None:
        return "-"
    return f"{1e6 * time.median:.2f} [{1e6 * time.low:.2f}, {1e6 * time.high:.2f}]"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the time of a matrix product with each kind of foreign code; return exit code 0."""
    options = argparse.ArgumentParser(prog="python -m rammer_mlir.benchmarks.calls")
    options.add_argument("--rows", type=int, default=ROWS, metavar="M")
    options.add_argument("--size", type=int, default=SIZE, metavar="N")
    options.add_argument("--seconds", type=float, default=20.0)
    given = options.parse_args(arguments)
    print(call_table(measure_calls(given.rows, given.size, given.seconds)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
