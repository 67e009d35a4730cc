"""Annotates the rKernels of a module with times of an rTask, measured or taken from the cache."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import astuple

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.llvm.machine import host_machine
from rammer_mlir.lowering.profiling.isolate import KernelSource, KernelSources
from rammer_mlir.lowering.profiling.measure import measure
from rammer_mlir.lowering.profiling.profiles import ProfileStore, default_path
from rammer_mlir.passes.ir.entry import functions, symbol_name
from rammer_mlir.passes.ir.kernels import annotate_seconds, described_kernels
from rammer_mlir.scheduling.graph import MeasuredSeconds


def profile_kernels(
    module: ir.Module,
    store: ProfileStore | None = None,
    executor: Executor | None = None,
    num_veus: int = 1,
) -> int:
    """Annotate every ``rtask.kernel`` of a module at the `buffers` stage with measured times.

    Args:
        module: a module whose rKernels take memrefs; changed in place.
        store: the cache of measurements; by default, the user's cache.
        executor: runs measurements in other processes, or on a cluster of machines of this kind
            (Dask's ``client.get_executor()``). None measures one rKernel after the other in this
            process, which disturbs the measurements least.
        num_veus: number of threads that an rKernel may use if its rTask runs alone on the device.

    Returns:
        The number of rKernels that were measured because the cache lacked them.
    """
    store = store or ProfileStore(default_path())
    machine = host_machine()
    kernels = {symbol_name(function): function for function in functions(module)}
    copies = KernelSources(module, num_veus)
    sources = {
        name: copies.of(kernels[name], _num_rtasks(description))
        for name, description in described_kernels(module).items()
    }
    keys = {name: source.key(machine) for name, source in sources.items()}
    wanted = {keys[name]: source for name, source in sources.items()}
    known = store.find(wanted)
    missing = {key: source for key, source in wanted.items() if key not in known}
    found = _measure_all(missing, store, executor)
    known.update(found)
    for name, description in described_kernels(module).items():
        annotate_seconds(description, astuple(known[keys[name]]))
    return len(missing)


def _measure_all(
    missing: Mapping[str, KernelSource], store: ProfileStore, executor: Executor | None
) -> dict[str, MeasuredSeconds]:
    if executor is None:
        found = {key: measure(source) for key, source in missing.items()}
    else:
        futures = {key: executor.submit(measure, source) for key, source in missing.items()}
        found = {key: future.result() for key, future in futures.items()}
    store.add(found)
    return found


def _num_rtasks(description: ir.OpView) -> int:
    return ir.IntegerAttr(description.operation.attributes["num_rtasks"]).value
