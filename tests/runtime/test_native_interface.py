"""Tests that compiled code reads the memory layouts that the runtime writes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from string import Template
from typing import Any

import gpu_model
import numpy as np
import pytest
from ring import Ring

from rammer_mlir import dialects
from rammer_mlir.bindings import ir
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options
from rammer_mlir.lowering.cpu import runtime
from rammer_mlir.lowering.cpu.native_image import build_image, lower_program
from rammer_mlir.lowering.ir_walk import walk
from rammer_mlir.lowering.llvm.codegen import emit_object
from rammer_mlir.lowering.llvm.jit import load_object
from rammer_mlir.lowering.llvm.machine import host_machine
from rammer_mlir.lowering.llvm.translation import to_llvm_ir
from rammer_mlir.passes.ir.entry import symbol_name
from rammer_mlir.programs import native_interface as interface
from rammer_mlir.programs.cpu_image import CpuImage
from rammer_mlir.programs.gpu_image import GpuImage
from rammer_mlir.programs.native_interface import (
    COUNTER_WORDS,
    JOB,
    MOVE,
    POOL,
    REPETITION,
    THREAD,
    VEU,
    ContextWord,
)
from rammer_mlir.runtime.execution_context import Context
from rammer_mlir.runtime.pool import WAIT_POLLS, NativeCode, ThreadPool, native_code

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

RING = Ring(num_veus=3)

PACKAGE = Path(interface.__file__).resolve().parents[2]

SYMBOLS = (
    interface.ENTRY, interface.TRACED_ENTRY, interface.START, interface.LAUNCH, interface.REPEAT,
    interface.STOP,
    interface.GPU_ENTRY, interface.SCRATCHES, interface.COUNTERS, interface.WATCH,
)  # fmt: skip


def lowered_ring() -> tuple[ir.Module, CpuImage]:
    """Return a ring program (``ring.py``) as LLVM functions with a dispatch loop, and its image."""
    context = ir.Context()
    dialects.register(context)
    with context, ir.Location.unknown():
        module = ir.Module.parse(RING.text())
        image = build_image(module, {1: RING.weights()}, RING.signature, RING.num_veus)
        lower_program(module, image.program, host_machine(), straight_line_limit=0)
    return module, image


def function(module: ir.Module, name: str) -> ir.Operation:
    """Return the function ``name`` of a module."""
    (found,) = (op.operation for op in module.body.operations if symbol_name(op) == name)
    return found


def width(kind: ir.Type) -> int:
    """Return the size in bytes of a scalar type in memory."""
    return ir.IntegerType(kind).width // 8 if isinstance(kind, ir.IntegerType) else 8


def accesses(scope: ir.Operation) -> Iterator[tuple[Any, int, int]]:
    """Yield all loads, stores and atomic updates of memory in ``scope``.

    An access is given by its base pointer, a constant offset from there, and its size; both are in
    bytes.
    """
    for operation in walk(scope):
        yield from accesses_of(operation)


def accesses_of(operation: ir.Operation) -> Iterator[tuple[Any, int, int]]:
    """Yield the access of an operation that accesses memory, as in ``accesses``.

    Nothing is yielded for other operations.
    """
    if operation.name in ("llvm.load", "llvm.atomicrmw"):
        address, kind = operation.operands[0], operation.results[0].type
    elif operation.name == "llvm.cmpxchg":
        address, kind = operation.operands[0], operation.operands[1].type
    elif operation.name == "llvm.store":
        address, kind = operation.operands[1], operation.operands[0].type
    else:
        return
    offset, owner = 0, address.owner
    if not isinstance(owner, ir.Block) and owner.operation.name == "llvm.getelementptr":
        (place,) = ir.DenseI32ArrayAttr(owner.attributes["rawConstantIndices"])
        offset = place * width(ir.TypeAttr(owner.attributes["elem_type"]).value)
        address = owner.operands[0]
    yield address, offset, width(kind)


def fields(layout: np.dtype[np.void]) -> set[tuple[int, int]]:
    """Return the offset and the size of each field of the structure ``layout``, both in bytes."""
    return {(offset, kind.itemsize) for kind, offset, *_ in (layout.fields or {}).values()}


def test_code_reads_the_words_of_the_context() -> None:
    module, _ = lowered_ring()
    words = {(8 * word, 8) for word in ContextWord}
    traces = (8 * ContextWord.TRACES, 8)
    for name, expected in (
        (interface.TRACED_ENTRY, words),
        (interface.ENTRY, words - {traces}),
    ):
        entry = function(module, name)
        context = entry.regions[0].blocks[0].arguments[1]
        found = {(offset, size) for base, offset, size in accesses(entry) if base == context}
        assert found == expected
        state = entry.regions[0].blocks[0].arguments[2]
        position = (8, 8)
        assert {tuple(at) for base, *at in accesses(entry) if base == state} == {position}


POINTERS = {
    interface.START: ["pool"],
    interface.LAUNCH: ["job"],
    interface.STOP: ["pool"],
    "rammer_sleep": ["pool"],
    "rammer_ring": ["pool"],
    "rammer_place": ["pool"],
    "rammer_join": ["pool"],
    "rammer_take_part": ["pool", "job"],
    "rammer_try": ["job"],
    "rammer_veu_state": ["job"],
    "rammer_worker": ["thread"],
    "rammer_is_ready": ["veu"],
    "rammer_wait": [None, None, None, "veu"],
}
"""For each function of the runtime, the structures that its first arguments point to."""

RETURNED = {"rammer_thread": "thread", "rammer_veu_state": "veu"}
"""For each function that returns the address of a structure, the structure."""

LOADED = {("rammer_worker", 0): "pool", ("rammer_join", 0): "job", (interface.LAUNCH, 128): "pool"}
"""Structures whose addresses functions load, by function and offset of the loaded address."""


def structure_of(name: str, base: ir.Value) -> str | None:
    """Return the name of the structure that the pointer ``base`` in function ``name`` points to.

    The result is None if it points to no structure of the pool.
    """
    owner = base.owner
    if isinstance(owner, ir.Block):
        structures = dict(enumerate(POINTERS[name]))
        return structures.get(ir.BlockArgument(base).arg_number)
    if owner.operation.name == "llvm.call" and "callee" in owner.operation.attributes:
        return RETURNED.get(ir.FlatSymbolRefAttr(owner.operation.attributes["callee"]).value)
    (offset,) = [offset for _, offset, _ in accesses_of(owner.operation)]
    return LOADED.get((name, offset))


def test_code_reads_the_fields_of_the_pool() -> None:
    """The runtime's code accesses exactly the fields of its structures, and each field is used."""
    layouts = {"pool": POOL, "thread": THREAD, "job": JOB, "veu": VEU}
    found: dict[str, set[tuple[int, int]]] = {name: set() for name in layouts}
    with ir.Context(), ir.Location.unknown():
        module = runtime.runtime_module("x86_64")
        for name in POINTERS:
            for base, offset, size in accesses(function(module, name)):
                structure = structure_of(name, base)
                if structure is not None:
                    found[structure].add((offset, size))
    assert found == {name: fields(layout) for name, layout in layouts.items()}


@pytest.mark.parametrize("architecture", ["x86_64", "aarch64"])
def test_the_text_of_the_runtime_has_no_name_too_few_or_too_many(architecture: str) -> None:
    folder = Path(runtime.__file__).parent
    names = ("runtime.mlir", "veus.mlir", f"processor_{architecture}.mlir")
    text = "".join((folder / name).read_text() for name in names)
    layouts = {
        "pool": POOL, "thread": THREAD, "job": JOB, "veu": VEU, "repetition": REPETITION,
        "move": MOVE,
    }  # fmt: skip
    offsets = {f"{name}_{field}" for name, kind in layouts.items() for field in kind.names or ()}
    # At offset 0, which needs no name.
    first = {"pool_bell", "job_epoch", "thread_pool", "veu_owner"}
    others = {"start", "launch", "stop", "repeat", "give_way", "held", "futex_syscall"}
    others |= {"float_mode", "set_float_mode"}
    others |= {"pool_bytes", "thread_bytes", "veu_bytes", "move_bytes"}
    others |= {"context_pointers", "context_run", "context_spins"}
    assert set(Template(text).get_identifiers()) == (offsets - first) | others


@pytest.fixture(scope="module")
def ring() -> tuple[CpuImage, NativeCode]:
    module, image = lowered_ring()
    with module.context:
        object_file = emit_object(to_llvm_ir(module), host_machine())
    library = load_object(object_file)
    return image, native_code(library.address, library)


def test_threads_write_what_the_host_reads(ring: tuple[CpuImage, NativeCode]) -> None:
    image, code = ring
    pool = ThreadPool(code, 3)
    pool.need_threads(3)
    job = pool.take_job(3)
    context = Context(image, job)
    x = RING.input()
    y = np.full_like(x, np.nan)
    for _ in range(2):
        context.bind([x], [y])
        code.launch(job.address, code.entry)
    memory: Bytes = vars(pool)["_memory"]
    head = memory[: POOL.itemsize].view(POOL)[0]
    places = POOL.itemsize + 3 * THREAD.itemsize
    threads = memory[POOL.itemsize : places].view(THREAD)
    assert (head["bell"], head["callers"], head["limit"], head["stop"]) == (2, 0, 3, 0)
    assert (head["wait_polls"], head["places"]) == (WAIT_POLLS, memory.ctypes.data + places)
    assert not memory[places:].any()
    assert threads["number"].tolist() == [0, 1, 2]
    assert threads["pool"][1:].tolist() == [memory.ctypes.data] * 2
    assert threads["handle"][1:].tolist() == pool.handles
    launches: Bytes = vars(job)["_memory"]
    launch = launches[: JOB.itemsize].view(JOB)[0]
    veus = launches[JOB.itemsize :][: 3 * VEU.itemsize].view(VEU)
    assert (launch["epoch"], launch["num_veus"]) == (2, 3)
    assert launch["veus"] == job.address + JOB.itemsize
    assert (launch["pool"], launch["entry"]) == (memory.ctypes.data, code.entry)
    assert launch["context"] == vars(context)["_words"].ctypes.data
    assert veus["owner"].tolist() == [2, 2, 2]
    assert not veus["position"].any()
    assert np.array_equal(y, RING.expected(x))
    pool.close()
    assert head["stop"] == 1


def test_a_gpu_kernel_has_the_arguments_that_it_is_launched_with() -> None:
    options = check_options("nvvm:sm_90", num_veus=3, costs="cpu", watchdog=1000)
    compilation = Compilation.of_model(gpu_model.MODEL, options)
    image = compilation.image
    assert isinstance(image, GpuImage)
    (kernel,) = (op for op in walk(compilation.module.operation) if op.name == "gpu.func")
    assert ir.StringAttr(kernel.attributes["sym_name"]).value == interface.GPU_ENTRY
    kinds = ir.FunctionType(ir.TypeAttr(kernel.attributes["function_type"]).value).inputs
    sizes = [kind.shape[0] * width(kind.element_type) for kind in map(ir.MemRefType, kinds)]
    assert sizes == list(image.argument_bytes)
    named = dict(zip(image.arguments, sizes, strict=True))
    assert named[interface.COUNTERS] == 8 * COUNTER_WORDS * 3
    assert named[interface.WATCH] == 8 * interface.watch_words(3)
    assert named[interface.TABLE] == image.tables[0].nbytes


def test_a_gpu_kernel_counts_where_the_interface_says() -> None:
    executable = gpu_model.compiled()
    for seed in range(2):
        executable.run(gpu_model.feeds_of(seed))
    program = executable.program
    counters = np.zeros((3, COUNTER_WORDS), np.int64)
    memory = vars(program)["_memory"][interface.COUNTERS]
    program.driver.download(counters, memory.address, program.stream)
    totals = executable.image.program.launches[0].totals
    assert counters[:, 0].tolist() == [2 * total for total in totals]
    assert not counters[:, 1:].any()


def test_no_symbol_is_spelled_twice() -> None:
    """Each symbol of the native interface is a literal in ``native_interface.py`` only."""
    for folder in ("rammer_mlir", "lowering", "passes"):
        for file in sorted((PACKAGE / folder).rglob("*.py")):
            if file.name == "native_interface.py":
                continue
            tree = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
            literals = {node.value for node in tree if isinstance(node, ast.Constant)}
            assert not literals & set(SYMBOLS), file
    text = Path(runtime.__file__).with_suffix(".mlir").read_text()
    assert not [symbol for symbol in SYMBOLS[:6] if f"@{symbol}(" in text]
