"""Count instructions of GPU code: ``python -m rammer_mlir.benchmarks.gpu.instructions``.

No GPU is needed:
- instructions of loops are counted in the PTX, barriers in the IR;
- ptxas reports registers and spills;
- the emulator records stores and loads;
- the simulator predicts the time of a run.

The lower bound of the time ("floor") is the larger of two quotients: bytes over bandwidth, and
operations over the peak rate of the element type.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isnan, nan
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray

from rammer_mlir.benchmarks.child import Failure, in_child
from rammer_mlir.benchmarks.command import one_line_errors
from rammer_mlir.benchmarks.gpu.kit.cases import Precision, Product
from rammer_mlir.benchmarks.gpu.kit.sources import product_model
from rammer_mlir.benchmarks.gpu.ptx_loops import PtxLoop, loading_loop, main_loop
from rammer_mlir.benchmarks.machine import table
from rammer_mlir.benchmarks.models import LIGHT, TABLE_1, build, random_feeds
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options
from rammer_mlir.emulation.device.executable import EmulatedExecutable
from rammer_mlir.emulation.device.traces import Trace
from rammer_mlir.emulation.records import TRACE_ACCESS_SHIFT, TraceRecord
from rammer_mlir.errors import OptionError, RammerError
from rammer_mlir.lowering.kernels.functions import KERNEL_PREFIX
from rammer_mlir.lowering.nvvm.ptxas import assemble
from rammer_mlir.programs.gpu_image import GpuImage
from rammer_mlir.scheduling.devices.catalog import device_for

PRODUCTS = tuple(
    f"{size}-{precision}"
    for size in ("1x4096x4096", "1024x1024x1024", "4096x4096x4096")
    for precision in ("f32", "tf32", "f16")
)
"""Products by name: rows, inner size and columns, and precision."""

_LONGEST = 1800.0
"""Time limit in seconds for a program."""

_EMULATED = 1 << 30
"""Most multiply-adds of a product that is emulated."""

_TRACED = 1 << 22
"""Number of traced accesses that are evaluated; later accesses are those of equal rTasks."""


@dataclass(frozen=True)
class Instructions:
    """Instruction counts of a program's code, its resources, and its predicted time.

    Attributes:
        name: name of the matrix product or of the model.
        rkernels: number of rKernels.
        rtasks: number of rTasks.
        loop: for a product, the main loop of the PTX, as ``main_loop`` finds it.
        in_flight: for a product, bytes that a block loads or copies from device memory in an
            iteration of the loop that ``loading_loop`` finds.
        veus: number of vEUs that have rTasks.
        barriers: mean number of block barriers in the code of an rKernel.
        stored: mean number of stores to an address of an rKernel's results; NaN if the program is
            too large for the emulator.
        loaded: mean number of loads from such an address by the rKernel that stores to the address;
            NaN if the program is too large for the emulator.
        registers: registers per thread.
        spill_bytes: bytes of spill stores and loads per thread.
        predicted: seconds of a run that the simulator predicts.
        floor: lower bound of the seconds of a run.
        error: the error in one line, empty if there is none.
    """

    name: str
    rkernels: int = 0
    rtasks: int = 0
    loop: PtxLoop = field(default_factory=lambda: PtxLoop(0, ()))
    in_flight: int = 0
    veus: int = 0
    barriers: float = 0.0
    stored: float = 0.0
    loaded: float = 0.0
    registers: int = 0
    spill_bytes: int = 0
    predicted: float = 0.0
    floor: float = 0.0
    error: str = ""


def product_of(name: str) -> Product:
    """Return the matrix product that a name such as ``1x4096x4096-f16`` describes.

    Raises:
        OptionError: if ``name`` is not ROWSxINNERxCOLUMNS-PRECISION.
    """
    match = re.fullmatch(r"(\d+)x(\d+)x(\d+)-(f32|tf32|f16)", name)
    if match is None:
        raise OptionError(f"product '{name}': expected ROWSxINNERxCOLUMNS-f32, -tf32 or -f16")
    kinds: dict[str, Precision] = {"f32": "f32", "tf32": "tf32", "f16": "f16"}
    rows, inner, columns = (int(match[n]) for n in (1, 2, 3))
    return Product(rows, inner, columns, kinds[match[4]])


def count(name: str, chip: str) -> Instructions:
    """Compile a product or a model for a chip; return the code's counts and predicted time.

    The emulator traces a model at its small scale; all other numbers are of the full scale.
    """
    try:
        is_product = "-" in name and name[0].isdigit()
        product = product_of(name) if is_product else None
        target = f"nvvm:{chip}" + ("+tf32" if product and product.precision == "tf32" else "")
        model = product_model(product) if product else build(name)
        options = check_options(target, policy="wavefront", num_veus=None)
        compilation = Compilation.of_model(model, options)
        predicted = compilation.predict()[0].seconds
        barriers = _barriers(compilation.emit("target").decode())
        ptx = compilation.emit("ptx").decode()
        resources = assemble(ptx, chip).resources
        code = compilation.code()
        assert isinstance(code.image, GpuImage)
        totals = [n for launch in code.image.program.launches for n in launch.totals]
        stored = loaded = nan
        if product is None or product.rows * product.inner * product.columns <= _EMULATED:
            traced = model if product else build(name, scale="small")
            stored, loaded = _accesses(traced, target)
        in_flight = loading_loop(ptx).loaded_bytes * code.image.block_threads
        busy = sum(total > 0 for total in totals)
        return Instructions(
            name, len(code.image.program.kernels), sum(totals), main_loop(ptx), in_flight, busy,
            barriers, stored, loaded, resources.registers,
            resources.spill_store_bytes + resources.spill_load_bytes,
            predicted, _floor(code.image, int(code.stats["operations"]), target, product),
        )  # fmt: skip
    except RammerError as error:
        return Instructions(name, error=str(error))


def _barriers(text: str) -> float:
    """Return the number of block barriers in the code of an rKernel, the mean over all rKernels.

    ``text`` is a module at the stage `target`, as MLIR text.
    """
    functions = text.split("func.func ")[1:]
    own = [one for one in functions if one.startswith(f"private @{KERNEL_PREFIX}")]
    return sum(one.count("gpu.barrier") for one in own) / max(1, len(own))


def _floor(image: GpuImage, operations: int, target: str, product: Product | None) -> float:
    device = device_for(target.partition("+")[0])
    tensors = sum(spec.num_bytes for spec in (*image.signature.inputs, *image.signature.outputs))
    moved = (tensors + image.constants.nbytes) / device.bytes_per_second
    rate = device.flops_per_second[product.precision if product else "f32"]
    return max(moved, operations / rate)


def _accesses(model: onnx.ModelProto, target: str) -> tuple[float, float]:
    """Return how often, on average, rKernels store to and load from an address of their results.

    The means are over all addresses, which are multiples of 2 bytes. Only the stores and loads of
    the rKernel whose result is at an address count.
    """
    options = check_options(target, policy="wavefront", num_veus=None).emulated(traced=True)
    executable = Compilation.of_model(model, options).executable()
    assert isinstance(executable, EmulatedExecutable)
    executable.run(random_feeds(model, seed=1))
    (trace,) = executable.traces
    stored = loaded = distinct = 0
    for function in {access.function for access in trace.accesses}:
        if not function.startswith(KERNEL_PREFIX):
            continue
        stores, loads = (_addresses(trace, function, f"llvm.{kind}") for kind in ("store", "load"))
        results = np.unique(stores)
        stored, distinct = stored + len(stores), distinct + len(results)
        loaded += int(np.isin(loads, results).sum())
    return stored / max(1, distinct), loaded / max(1, distinct)


def _addresses(trace: Trace, function: str, operation: str) -> NDArray[np.uint64]:
    """Return the addresses in device memory that a function's loads or stores access.

    An access of n bytes contributes n / 2 addresses, which are 2 bytes apart. ``operation`` is
    "llvm.load" or "llvm.store".
    """
    records = trace.records[:_TRACED]
    numbers = records[:, TraceRecord.WHO] >> np.uint64(TRACE_ACCESS_SHIFT)
    parts: list[NDArray[np.uint64]] = [np.empty(0, np.uint64)]
    for number, access in enumerate(trace.accesses):
        if (access.function, access.operation) == (function, operation):
            first = records[numbers == number, TraceRecord.ADDRESS]
            first = first[first < trace.shared]
            halves = np.arange(0, access.num_bytes, 2, dtype=np.uint64)
            parts.append((first[:, None] + halves).reshape(-1))
    return np.concatenate(parts)


def report(found: Sequence[Instructions]) -> str:
    """Return a Markdown table of the counts for matrix products, then a table for models."""
    products = [one for one in found if one.name[0].isdigit()]
    models = [one for one in found if not one.name[0].isdigit()]
    parts: list[str] = []
    if products:
        heads = [
            "product", "rTasks", "loads", "copies", "shared loads", "fma, mma", "all",
            "KiB in flight per vEU", "MiB in all", "barriers", "stores", "reloads", "registers",
            "spills", "predicted us", "floor us",
        ]  # fmt: skip
        parts.append(table([heads, *map(_product_row, products)]))
    if models:
        heads = ["model", "rKernels", "rTasks", "barriers", "stores", "reloads", "registers",
                 "spills", "predicted us", "floor us"]  # fmt: skip
        parts.append(table([heads, *map(_model_row, models)]))
    return "\n\n".join(parts)


def _product_row(one: Instructions) -> list[str]:
    if one.error:
        return [one.name, one.error, *[""] * 14]
    loop = one.loop
    shared = loop.count("ld.shared", "ldmatrix")
    counts = (
        loop.count("ld.global"), loop.count("cp.async.c"), shared, loop.products,
        len(loop.instructions),
    )  # fmt: skip
    return [
        one.name, str(one.rtasks), *map(str, counts), f"{one.in_flight / 1024:g}",
        f"{one.in_flight * one.veus / (1 << 20):.2f}", *_common(one),
    ]  # fmt: skip


def _model_row(one: Instructions) -> list[str]:
    if one.error:
        return [one.name, one.error, *[""] * 8]
    return [one.name, str(one.rkernels), str(one.rtasks), *_common(one)]


def _common(one: Instructions) -> list[str]:
    return [
        f"{one.barriers:.3g}", *("-" if isnan(n) else f"{n:.2f}" for n in (one.stored, one.loaded)),
        str(one.registers),
        str(one.spill_bytes), f"{one.predicted * 1e6:.2f}", f"{one.floor * 1e6:.2f}",
    ]  # fmt: skip


def _count(request: tuple[str, str]) -> Instructions:
    return count(*request)


@one_line_errors
def main(arguments: Sequence[str] | None = None) -> int:
    """Compile the programs, print the tables and write them to a file; return 1 on a failure."""
    parser = argparse.ArgumentParser(
        prog="python -m rammer_mlir.benchmarks.gpu.instructions", description=__doc__
    )
    parser.add_argument(
        "programs", nargs="*", metavar="PRODUCT|MODEL", default=[*PRODUCTS, *TABLE_1, *LIGHT]
    )
    parser.add_argument("--chip", default="sm_90")
    parser.add_argument("--output", type=Path, default=Path("build/gpu_instructions.md"))
    options = parser.parse_args(arguments)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    found: list[Instructions] = []
    for name in options.programs:
        answer = in_child(_count, (name, options.chip), _LONGEST)
        if isinstance(answer, Failure):
            answer = Instructions(name, error=answer.message)
        found.append(answer)
        print(f"{name}: {answer.error or 'done'}", file=sys.stderr, flush=True)
        options.output.write_text(report(found) + "\n", encoding="utf-8")
    print(report(found))
    return 1 if any(one.error for one in found) else 0


if __name__ == "__main__":
    sys.exit(main())
