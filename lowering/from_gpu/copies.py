"""Replaces copies between buffers of a host function by launches of kernels that copy."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from rammer_mlir.bindings import ir
from rammer_mlir.passes.base import OperationError
from rammer_mlir.passes.ir.entry import symbol_name

_THREADS = 128
"""Number of threads of a block; each thread copies one element."""

_HOLDER, _KERNEL = "rtask_copies", "copy"


def launch_copies(module: ir.Module, host: ir.OpView) -> None:
    """Replace each ``memref.copy`` of ``host`` by the launch of a new kernel.

    Each thread of the kernel copies one element.

    Raises:
        OperationError: if a copy has a dynamic size; the message names the copy.
    """
    block = host.operation.regions[0].blocks[0]
    copies = [each.operation for each in block.operations if each.operation.name == "memref.copy"]
    taken = {symbol_name(each) for each in module.body.operations if "sym_name" in each.attributes}
    for number, copy in enumerate(copies):
        name = next(n for n in (f"{_HOLDER}{m}" for m in range(number, 1 << 30)) if n not in taken)
        taken.add(name)
        with copy.location, ir.InsertionPoint(copy):
            _launch(module, copy, name)
        copy.erase()


def _launch(module: ir.Module, copy: ir.Operation, name: str) -> None:
    kinds = [ir.MemRefType(operand.type) for operand in copy.operands]
    if not all(kind.has_static_shape for kind in kinds):
        raise OperationError(
            copy, f"expected static shapes, found {kinds[0]} and {kinds[1]}; give shapes statically"
        )
    count = prod(kinds[0].shape)
    if not count:
        return
    buffers = [_flat(value) for value in copy.operands]
    if any(flat is None for flat in buffers):
        buffers = list(copy.operands)
    values = [value for value in buffers if value is not None]
    holder = ir.Module.parse(_text(name, [str(v.type) for v in values], _shape(values[0])))
    kernel = holder.body.operations[0].detach_from_parent()
    ir.InsertionPoint.at_block_begin(module.body).insert(kernel)
    module.operation.attributes["gpu.container_module"] = ir.UnitAttr.get()
    one, blocks, threads = (_index(n) for n in (1, -(-count // _THREADS), min(count, _THREADS)))
    ir.Operation.create(
        "gpu.launch_func",
        operands=[blocks, one, one, threads, one, one, *values],
        attributes={
            "kernel": ir.SymbolRefAttr.get([name, _KERNEL]),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, *[1] * 6, 0, 0, 0, 0, 2, 0]),
        },
    )


def _shape(value: ir.Value) -> list[int]:
    return list(ir.MemRefType(value.type).shape)


def _index(number: int) -> ir.Value:
    kind = ir.IndexType.get()
    attributes = {"value": ir.IntegerAttr.get(kind, number)}
    return ir.Operation.create("arith.constant", results=[kind], attributes=attributes).result


def _flat(value: ir.Value) -> ir.Value | None:
    """Emit a rank-1 view of a dense buffer; return None if the buffer is strided.

    In the view, the threads of a block copy consecutive elements.
    """
    kind = ir.MemRefType(value.type)
    if kind.layout != ir.AffineMapAttr.get(ir.AffineMap.get_identity(kind.rank)) or kind.rank < 2:
        return value if kind.rank == 1 else None
    flat = ir.MemRefType.get([prod(kind.shape)], kind.element_type, memory_space=kind.memory_space)
    index = ir.IntegerType.get_signless(64)
    dims = ir.ArrayAttr.get([ir.IntegerAttr.get(index, dim) for dim in range(kind.rank)])
    attributes = {"reassociation": ir.ArrayAttr.get([dims])}
    return ir.Operation.create(
        "memref.collapse_shape", results=[flat], operands=[value], attributes=attributes
    ).result


def _text(name: str, kinds: Sequence[str], shape: Sequence[int]) -> str:
    """Return the MLIR text of a ``gpu.module`` whose kernel copies an element per thread.

    ``name`` is the module's symbol. ``kinds`` has the memref types of source and target as MLIR
    text, and ``shape`` is the shape of both.
    """
    lines = [f"%size = arith.constant {prod(shape)} : index", "%rest0 = gpu.global_id x"]
    for dim in reversed(range(len(shape))):
        step = len(shape) - 1 - dim
        lines += [
            f"%e{dim} = arith.constant {shape[dim]} : index",
            f"%d{dim} = arith.remui %rest{step}, %e{dim} : index",
            f"%rest{step + 1} = arith.divui %rest{step}, %e{dim} : index",
        ]
    # The only dimension of a run has no remainder, so that the box of each block is exact.
    at = "%rest0" if len(shape) == 1 else ", ".join(f"%d{dim}" for dim in range(len(shape)))
    body = "\n".join(lines)
    return f"""
gpu.module @{name} {{
  gpu.func @{_KERNEL}(%from: {kinds[0]}, %to: {kinds[1]}) kernel {{
    {body}
    %inside = arith.cmpi ult, %rest0, %size : index
    scf.if %inside {{
      %value = memref.load %from[{at if shape else ""}] : {kinds[0]}
      memref.store %value, %to[{at if shape else ""}] : {kinds[1]}
    }}
    gpu.return
  }}
}}"""
