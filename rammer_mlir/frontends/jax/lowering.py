"""Transfers StableHLO from JAX's MLIR bindings to the compiler's bindings.

JAX and the compiler use different versions of MLIR. As in ``jax.export``, the module is therefore
serialized as a portable artifact (VHLO), which other versions of StableHLO can read.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from rammer_mlir import dialects
from rammer_mlir.bindings import ir, stablehlo
from rammer_mlir.errors import ModelError, UnsupportedError
from rammer_mlir.frontends.jax.package import jax_package
from rammer_mlir.frontends.onnx.model import first_line

_SHARDING = "sdy."
"""Prefix of operations that distribute values among devices; there is a single device."""


def stablehlo_of(lowered: Any) -> ir.Module:
    """Return the StableHLO module of a ``jax.stages.Lowered``; ``lowered`` is not modified.

    The arguments and results of the module's function are the leaves of the JAX function's argument
    and result pytrees, in JAX's order.

    Raises:
        MissingPackageError: if jax is not installed, or too old.
        ModelError: if the module cannot be transferred.
        UnsupportedError: if the function was lowered for several devices, or if the compiler's MLIR
            bindings lack StableHLO.
    """
    jax_package()
    if stablehlo is None:
        raise UnsupportedError(
            "a function of JAX: expected MLIR bindings with StableHLO, found none; use those of "
            "torch-mlir, which 'pip install rammer-mlir' installs"
        )
    theirs = _jax_bindings("dialects.stablehlo")
    try:
        module = lowered.compiler_ir("stablehlo").operation.clone()
        with module.context:
            _drop_shardings(module)
            _expand_chlo(module)
            text = module.get_asm(enable_debug_info=True, print_generic_op_form=True)
        version = theirs.get_smaller_version(
            theirs.get_current_version(), stablehlo.get_current_version()
        )
        with module.context:
            content = theirs.serialize_portable_artifact_str(text, version)
        context = ir.Context()
        dialects.register(context)
        stablehlo.register_dialect(context)
        return stablehlo.deserialize_portable_artifact(context, content)
    except UnsupportedError:
        raise
    except Exception as error:
        raise ModelError(
            "the function of JAX cannot be handed over as StableHLO: "
            f"{type(error).__name__}: {first_line(error)}"
        ) from error


@functools.cache
def _jax_bindings(name: str) -> ModuleType:
    """Import and return a module of JAX's MLIR bindings; ``name`` is relative to their package."""
    return importlib.import_module(f"jaxlib.mlir.{name}")


def _walk(op: Any) -> Iterator[Any]:
    for region in op.regions:
        for block in region.blocks:
            for inner in list(block.operations):
                yield from _walk(inner.operation)
                yield inner.operation


_NUM_DEVICES = {"mhlo.num_partitions": "a mesh", "mhlo.num_replicas": "'pmap'"}
"""Attributes of modules that count devices, and the parts of JAX that use several devices."""


def _check_devices(attributes: Any) -> None:
    """Raise an UnsupportedError if a module is for more than one device.

    ``attributes`` are the MLIR attributes of the module's operation, by name.
    """
    for name, remedy in _NUM_DEVICES.items():
        if name in attributes and attributes[name].value != 1:
            raise UnsupportedError(
                f"the function of JAX is for {attributes[name].value} devices: expected one; "
                f"lower it without {remedy}"
            )


def _drop_shardings(module: Any) -> None:
    """Remove the ``sdy`` operations and attributes, which distribute values over devices.

    Raises:
        UnsupportedError: if the module is for more than one device.
    """
    _check_devices(module.attributes)
    for op in list(_walk(module)):
        if op.name.startswith(_SHARDING):
            for result, operand in zip(op.results, op.operands, strict=False):
                result.replace_all_uses_with(operand)
            op.erase()
            continue
        for name in [getattr(each, "name", each) for each in op.attributes]:
            if name.startswith(_SHARDING):
                del op.attributes[name]


@functools.cache
def _register_passes() -> None:
    _jax_bindings("dialects.stablehlo").register_stablehlo_passes()


def _expand_chlo(module: Any) -> None:
    """Expand CHLO operations, such as erf, to StableHLO by a pass that only JAX's bindings have."""
    if any(op.name.startswith("chlo.") for op in _walk(module)):
        _register_passes()
        manager = _jax_bindings("passmanager").PassManager
        manager.parse("builtin.module(func.func(chlo-legalize-to-stablehlo))").run(module)
