"""Run MLIR modules with IREE, whose results are the reference."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def missing_reference() -> str:
    """Return the reason why results cannot be compared with IREE's; empty if they can be."""
    for name, package in (
        ("iree.compiler", "iree-base-compiler"),
        ("iree.runtime", "iree-base-runtime"),
    ):
        try:
            importlib.import_module(name)
        except ImportError as error:
            return f"{error}; pip install {package}"
    return ""


def run_reference(content: str, entry: str, inputs: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Compile the MLIR module ``content`` by IREE; return the results of its function ``entry``.

    Raises:
        Exception: any exception of IREE for a module that it cannot compile.
    """
    compiler: Any = importlib.import_module("iree.compiler")
    runtime: Any = importlib.import_module("iree.runtime")
    try:
        binary = _compiled(compiler, content)
    except compiler.CompilerToolError:
        binary = _compiled(compiler, _generalized(content))
    config = runtime.Config("local-sync")
    context = runtime.SystemContext(config=config)
    context.add_vm_module(runtime.VmModule.copy_buffer(config.vm_instance, binary))
    name = next(name for name in context.modules if name != "hal")
    function = context.modules[name][entry]
    found = function(*[np.asarray(value) for value in inputs])
    results = found if isinstance(found, tuple | list) else (found,)
    return [
        np.asarray(result.to_host() if hasattr(result, "to_host") else result) for result in results
    ]


def _compiled(compiler: Any, content: str) -> bytes:
    found: bytes = compiler.compile_str(
        content,
        input_type="auto",
        target_backends=["llvm-cpu"],
        extra_args=["--iree-llvmcpu-target-cpu=host"],
    )
    return found


def _generalized(content: str) -> str:
    """Return the MLIR module ``content`` with each named linalg operation made ``linalg.generic``.

    Names of these operations differ between our version of MLIR and IREE's.
    """
    from rammer_mlir import dialects
    from rammer_mlir.bindings import ir, passmanager

    context = ir.Context()
    dialects.register(context)
    with context:
        module = dialects.parse(content)
        passes = "builtin.module(linalg-generalize-named-ops)"
        passmanager.PassManager.parse(passes).run(module.operation)
        return str(module)
