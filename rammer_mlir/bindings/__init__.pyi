"""Type stubs of the MLIR bindings; the generated modules of the dialects are untyped (``Any``)."""

from types import ModuleType
from typing import Any

from rammer_mlir.bindings import ext as ext
from rammer_mlir.bindings import ir as ir
from rammer_mlir.bindings import passmanager as passmanager

PACKAGE: str
stablehlo: Any | None

affine: Any
arith: Any
bufferization: Any
cf: Any
func: Any
gpu: Any
irdl: Any
linalg: Any
llvm: Any
math: Any
memref: Any
scf: Any
tensor: Any
nvgpu: Any
nvvm: Any
rocdl: Any
vector: Any

def submodule(name: str) -> ModuleType: ...
def load_created_dialect(name: str, context: ir.Context) -> None: ...
