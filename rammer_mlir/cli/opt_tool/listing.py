"""Lists the passes and the dialects of ``rammer-opt``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from rammer_mlir import dialects
from rammer_mlir.bindings import ir
from rammer_mlir.passes.base import Pass
from rammer_mlir.passes.options import describe_options
from rammer_mlir.passes.registry import EXTENSION_PASSES, help_line

_KNOWN_DIALECTS = (
    "acc affine amdgpu amx arith arm_neon arm_sme arm_sve async bufferization builtin cf chlo "
    "complex dlti emitc func gpu index irdl linalg llvm math memref ml_program mpi nvgpu nvvm omp "
    "pdl pdl_interp ptr quant rocdl scf shape shard smt sparse_tensor spirv stablehlo tensor "
    "tm_tensor torch torch_c tosa transform ub vector vhlo wasmssa x86 x86vector xegpu xevm"
).split()
"""Names of dialects that the bindings may have.

Bindings can look up a dialect by name, but not list all dialects.
"""


def list_passes(passes: Sequence[type[Pass]]) -> str:
    """Return a text with a line for each pass.

    First come ``passes``, which are this project's passes, then the passes of installed packages
    and of plug-ins.
    """
    return "\n".join(
        [
            "Passes of rammer-mlir:",
            *(f"  --{kind.name:<30}{help_line(kind)}{_options(kind)}" for kind in passes),
            *_list_extensions(),
            "All passes of MLIR are accepted too, by their names in 'mlir-opt --help'.",
        ]
    )


def _list_extensions() -> Iterator[str]:
    """Yield a heading for each package or module with passes, and a line for each pass."""
    extensions = sorted(EXTENSION_PASSES.extensions(), key=lambda extension: extension.origin)
    for origin, passes in groupby(extensions, key=lambda extension: extension.origin):
        yield f"Passes of {origin}:"
        for found in passes:
            kind = found.value
            text = f"error: {found.problem}" if kind is None else help_line(kind) + _options(kind)
            yield f"  --{found.name:<30}{text}"


def _options(kind: type[Pass]) -> str:
    options = describe_options(kind)
    return f" [{options}]" if options else ""


def list_dialects() -> str:
    """Return a line of text with the names of all dialects that inputs may use."""
    context = ir.Context()
    dialects.register(context)
    found = ["rtask"]
    for name in _KNOWN_DIALECTS:
        try:
            context.get_dialect_descriptor(name)
        except ValueError:
            continue
        found.append(name)
    return f"Available Dialects: {','.join(sorted(found))}"
