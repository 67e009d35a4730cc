"""Map an rKernel of linalg operations to a block's threads, and compile it for the emulator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rammer_mlir.bindings import ir
from rammer_mlir.emulation.codegen.kernel import compile_kernel
from rammer_mlir.emulation.records import EmulatedKernel
from rammer_mlir.lowering.gpu.contractions.plan_matching import PLAN
from rammer_mlir.lowering.gpu.kernels import MappedKernels, map_kernels

SHARED_LIMIT = 48 << 10


def compile_mapped(
    source: str,
    types: Sequence[str],
    threads: int,
    inspect: Callable[[Any], None],
    *,
    traced: bool = False,
    **options: Any,
) -> tuple[EmulatedKernel, MappedKernels]:
    """Map an rKernel to a block's threads, and compile a GPU kernel that calls it once.

    Args:
        source: a module whose first function is the rKernel, ``kernel``.
        types: memref types of the rKernel's buffers; the GPU kernel takes these, then scratch.
        threads: the number of threads of the block.
        inspect: is called with the mapped rKernel, and may change it.
        traced: whether accesses are recorded instead of checked.
        options: options of ``map_kernels``.
    """
    with ir.Context() as context, ir.Location.unknown():
        context.allow_unregistered_dialects = True
        module: Any = ir.Module.parse(source)
        kernel = module.body.operations[0].operation
        mapped = map_kernels(module, [kernel], SHARED_LIMIT, threads, **options)
        assert PLAN not in str(module)
        inspect(kernel)
        names = [f"%b{number}" for number in range(len(types))]
        given = ", ".join(f"{name}: {kind}" for name, kind in zip(names, types, strict=True))
        buffers, values = ", ".join(types), ", ".join(names)
        shared = f"memref<{mapped.shared_bytes}xi8, #gpu.address_space<workgroup>>"
        scratch = f"memref<{mapped.scratch_bytes}xi8>"
        container: Any = ir.Module.parse(f"""
module attributes {{gpu.container_module}} {{
gpu.module @m {{
func.func private @kernel(index, {buffers}, {shared}, {scratch})
gpu.func @entry({given}, %scratch: {scratch}) workgroup(%shared: {shared}) kernel {{
  %id = arith.constant 0 : index
  func.call @kernel(%id, {values}, %shared, %scratch)
      : (index, {buffers}, {shared}, {scratch}) -> ()
  gpu.return
}}
}}
}}""")
        holder = container.body.operations[0].operation
        declaration = holder.regions[0].blocks[0].operations[0].operation
        kernel.move_before(declaration)
        declaration.erase()
        return compile_kernel(container, "entry", checked=not traced, traced=traced), mapped
