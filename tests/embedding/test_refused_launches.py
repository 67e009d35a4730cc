"""What cannot be part of a static program is refused in one line that names the launch."""

from __future__ import annotations

import re

import pytest

from rammer_mlir import dialects
from rammer_mlir.bindings import ir
from rammer_mlir.errors import RammerError
from rammer_mlir.lowering.from_gpu.rtask_from_gpu import FromGpu
from rammer_mlir.lowering.registry import LOWERING_PASSES
from rammer_mlir.passes.manager import run_pipeline
from rammer_mlir.passes.registry import PASSES

KIND = "memref<8xf32>"
KERNEL = f"""
gpu.func @fill(%y: {KIND}, %f: f32) kernel {{
  %i = gpu.global_id x
  memref.store %f, %y[%i] : {KIND}
  gpu.return
}}
"""
LAUNCH = (
    "gpu.launch_func @k::@fill blocks in (%c2, %c1, %c1) threads in (%c4, %c1, %c1) "
    f"args(%y : {KIND}, %f : f32)"
)


def module(
    launches: str = LAUNCH, kernel: str = KERNEL, signature: str = "", results: str = ""
) -> str:
    """Return MLIR text of a host function and its GPU module.

    Args:
        launches: operations of the host function.
        kernel: the GPU module's function.
        signature: arguments of the host function after %y.
        results: type of the host function's result %y; it has no result if the text is empty.
    """
    more = f", {signature}" if signature else ""
    end = "return %y : memref<8xf32>" if results else "return"
    return f"""
module attributes {{gpu.container_module}} {{
func.func @host(%y: {KIND}{more}) {f"-> {results}" if results else ""} {{
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %f = arith.constant 1.0 : f32
  {launches}
  {end}
}}
gpu.module @k {{
{kernel}
}}
}}"""


def body(text: str) -> str:
    """Return ``KERNEL`` with the operations ``text`` added before its return, as MLIR text."""
    return KERNEL.replace("gpu.return", f"{text}\n  gpu.return")


REFUSED = {
    "dynamic grid": (
        module(LAUNCH.replace("%c2, %c1, %c1", "%n, %c1, %c1"), signature="%n: index"),
        "launch of @k::@fill: expected a static grid size in x, found one that depends on the run",
    ),
    "dynamic block": (
        module(LAUNCH.replace("(%c4, %c1", "(%c4, %n"), signature="%n: index"),
        "launch of @k::@fill: expected a static block size in y",
    ),
    "large block": (
        module(f"%big = arith.constant 300 : index\n{LAUNCH.replace('(%c4, %c1', '(%c4, %big')}"),
        "launch of @k::@fill: expected at most 1024 threads in a block, found 4 x 300 x 1",
    ),
    "token": (
        module(
            f"%t = gpu.wait async\n%u = {LAUNCH.replace('launch_func', 'launch_func async [%t]')}"
        ),
        "'gpu.wait': expected launches, allocations, views and constants between them",
    ),
    "asynchronous launch": (
        module(f"%t = {LAUNCH.replace('gpu.launch_func', 'gpu.launch_func async')}"),
        "launch of @k::@fill: expected a synchronous launch, found asynchronous tokens",
    ),
    "dynamic shared memory": (
        module(
            "%bytes = arith.constant 64 : i32\n"
            + LAUNCH.replace("args(", "dynamic_shared_memory_size %bytes args(")
        ),
        "launch of @k::@fill: expected static shared memory, found a dynamic size",
    ),
    "scalar of the run": (
        module(LAUNCH.replace("%f : f32", "%g : f32"), signature="%g: f32"),
        "launch of @k::@fill: expected a constant as argument 1, found a f32 that depends on the "
        "run; pass it in a memref",
    ),
    "not outlined": (
        module(
            "gpu.launch blocks(%a, %b, %c) in (%d = %c2, %e = %c1, %g = %c1) "
            "threads(%h, %i, %j) in (%l = %c4, %m = %c1, %n = %c1) { gpu.terminator }"
        ),
        "'gpu.launch': expected outlined kernels; run gpu-kernel-outlining",
    ),
    "loop of launches": (
        module(f"scf.for %i = %c1 to %c4 step %c1 {{\n{LAUNCH}\n}}"),
        "'scf.for': expected launches, allocations, views and constants between them",
    ),
    "effect between launches": (
        module(f"{LAUNCH}\nmemref.store %f, %y[%c1] : {KIND}"),
        "'memref.store': expected launches, allocations, views and constants between them",
    ),
    "results": (
        module(results=KIND),
        "'func.return': expected no results, found 1; write them to arguments "
        "(buffer-results-to-out-params{modify-public-functions=true})",
    ),
    "no launch": (module(""), "expected one function with gpu.launch_func, found 0 (none)"),
    "dynamic shape": (
        module(
            LAUNCH.replace(f"%y : {KIND}", "%z : memref<?xf32>"),
            KERNEL.replace(KIND, "memref<?xf32>"),
            "%z: memref<?xf32>",
        ),
        "launch of @k::@fill: expected a static shape as argument 0, found memref<?xf32>",
    ),
    "dynamic offset": (
        module(
            f"%v = memref.subview %z[%n] [8] [1] : memref<20xf32> to {KIND[:-1]}, "
            "strided<[1], offset: ?>>\n"
            + LAUNCH.replace(f"%y : {KIND}", f"%v : {KIND[:-1]}, strided<[1], offset: ?>>"),
            KERNEL.replace(KIND, f"{KIND[:-1]}, strided<[1], offset: ?>>"),
            "%z: memref<20xf32>, %n: index",
        ),
        "launch of @k::@fill: expected static strides and offset as argument 0",
    ),
    "unknown alias": (
        module(
            f"%z = arith.select %which, %y, %x : {KIND}\n{LAUNCH.replace('%y', '%z')}",
            signature=f"%which: i1, %x: {KIND}",
        ),
        "launch of @k::@fill: expected argument 0 in an argument or allocation of the function, "
        "found it from 'arith.select', which may alias any other",
    ),
    "booleans": (
        module(
            LAUNCH.replace(f"%y : {KIND}", "%z : memref<8xi1>").replace("%f : f32", "%o : i1"),
            KERNEL.replace(KIND, "memref<8xi1>").replace("%f: f32", "%f: i1"),
            "%z: memref<8xi1>",
        ).replace("%f = arith.constant 1.0 : f32", "%o = arith.constant true"),
        "launch of @k::@fill: expected elements of whole bytes as argument 0, found memref<8xi1>",
    ),
    "unknown effect": (
        module(kernel=body('gpu.printf "hello"')),
        "launch of @k::@fill: expected operations whose effects on memory are known, found "
        "'gpu.printf' in the kernel",
    ),
    "call": (
        module(kernel=body("func.call @f() : () -> ()") + "func.func private @f()"),
        "found 'func.call' in the kernel; inline it (inline)",
    ),
    "address": (
        module(kernel=body(f"%p = memref.extract_aligned_pointer_as_index %y : {KIND} -> index")),
        "found 'memref.extract_aligned_pointer_as_index' in the kernel",
    ),
    "memref in a loop": (
        module(
            kernel=body(
                "%c0 = arith.constant 0 : index\n%c1 = arith.constant 1 : index\n"
                f"%r = scf.for %k = %c0 to %c1 step %c1 iter_args(%m = %y) -> {KIND} "
                f"{{\nscf.yield %m : {KIND}\n}}"
            )
        ),
        "launch of @k::@fill: expected memrefs in loads, stores and views only, found one in "
        "'scf.for'",
    ),
    "branches": (
        module(kernel=body("cf.br ^end\n^end:")),
        "launch of @k::@fill: expected structured control flow (scf), found 2 blocks",
    ),
    "part of a subgroup": (
        module(
            kernel=body(
                "%w = arith.constant 32 : i32\n%o, %valid = gpu.shuffle xor %f, %w, %w : f32"
            )
        ),
        "launch of @k::@fill: expected blocks of whole subgroups, as lanes exchange values, found "
        "4 threads; use a multiple of 32",
    ),
}


def convert(text: str, pipeline: str = "") -> ir.Module:
    """Run ``rtask-from-gpu``, and then the passes of ``pipeline``; return the module."""
    context = ir.Context()
    dialects.register(context)
    with context:
        module = ir.Module.parse(text)
        FromGpu().run(module)
        if pipeline:
            run_pipeline(module, f"builtin.module({pipeline})", passes=(*PASSES, *LOWERING_PASSES))
        return module


def test_the_module_itself_is_accepted() -> None:
    assert "rtask.operator" in str(convert(module()))


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    text, message = REFUSED[name]
    with pytest.raises(RammerError, match=re.escape(message)) as raised:
        convert(text)
    assert "\n" not in str(raised.value)


def test_values_that_nobody_writes() -> None:
    """The schedule's verifier refuses an allocation that is read but never written."""
    kernel = f"""
gpu.func @copy(%x: {KIND}, %y: {KIND}) kernel {{
  %i = gpu.global_id x
  %v = memref.load %x[%i] : {KIND}
  memref.store %v, %y[%i] : {KIND}
  gpu.return
}}"""
    launch = LAUNCH.replace("@fill", "@copy").replace("%f : f32", f"%y : {KIND}")
    text = module(f"%a = memref.alloc() : {KIND}\n{launch.replace('(%y', '(%a')}", kernel)
    # Nothing ever writes it, so there is no memory that would hold it either.
    with pytest.raises(RammerError, match="never written"):
        convert(text, "rtask-schedule,rtask-verify-schedule")


def test_write_around_a_barrier_that_decides() -> None:
    """A loop with a barrier is refused if its bound is in memory that the kernel writes."""
    kernel = f"""
gpu.func @odd(%n: memref<1xi64>, %y: {KIND}) kernel {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %one = arith.constant 1 : i64
  %old = memref.atomic_rmw addi %one, %n[%c0] : (i64, memref<1xi64>) -> i64
  %end = arith.index_cast %old : i64 to index
  scf.for %i = %c0 to %end step %c1 {{
    gpu.barrier
  }}
  gpu.return
}}"""
    launch = (
        "gpu.launch_func @k::@odd blocks in (%c2, %c1, %c1) threads in (%c4, %c1, %c1) "
        f"args(%n : memref<1xi64>, %y : {KIND})"
    )
    with pytest.raises(RammerError, match="elements that all threads read"):
        convert(module(launch, kernel, "%n: memref<1xi64>"))


@pytest.mark.parametrize("read", ["%c", "%d"])  # both are the same buffer
def test_condition_on_written_memory_around_a_barrier(read: str) -> None:
    """Spare threads would read thread 0's counter before or after thread 0 decrements it."""
    kernel = """
gpu.func @count(%c: memref<4xi32>, %d: memref<4xi32>) kernel {
  %t = gpu.thread_id x
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  scf.while : () -> () {
    %v = memref.load READ[%t] : memref<4xi32>
    %go = arith.cmpi sgt, %v, %zero : i32
    scf.condition(%go)
  } do {
    gpu.barrier
    %v = memref.load %c[%t] : memref<4xi32>
    %w = arith.subi %v, %one : i32
    memref.store %w, %c[%t] : memref<4xi32>
    scf.yield
  }
  gpu.return
}""".replace("READ", read)
    launch = (
        "gpu.launch_func @k::@count blocks in (%c1, %c1, %c1) threads in (%c4, %c1, %c1) "
        "args(%c : memref<4xi32>, %c : memref<4xi32>)"
    )
    with pytest.raises(RammerError, match="may write meanwhile"):
        convert(module(launch, kernel, "%c: memref<4xi32>"))
