"""Lowers TOSA, StableHLO and affine loops to linalg and scf, by upstream passes."""

from __future__ import annotations

import re

from rammer_mlir.bindings import ir, passmanager, stablehlo
from rammer_mlir.passes.base import DiagnosticError, FindingsError
from rammer_mlir.passes.ir.element_types import element_of
from rammer_mlir.passes.ir.traversal import nested_operations, operations_named, replace

_TOSA = (
    "func.func(tosa-optional-decompositions,tosa-make-broadcastable)",
    "func.func(tosa-infer-shapes)",
    "func.func(tosa-to-scf)",
    "func.func(tosa-to-linalg-named{prefer-conv2d-kernel-layout-hwcf=true},canonicalize)",
    "func.func(tosa-layerwise-constant-fold,tosa-make-broadcastable)",
    "func.func(tosa-to-linalg,tosa-to-tensor,tosa-to-arith{include-apply-rescale=true})",
    "canonicalize",
)

_WITHOUT_SIGNS = "stablehlo-convert-to-signless"

_STABLEHLO_PREPARED = (
    "func.func(stablehlo-legalize-deprecated-ops{fail-on-unused=false})",
    "func.func(stablehlo-legalize-composite-to-call,stablehlo-canonicalize-dynamism)",
    "inline",
    "symbol-dce",
    "func.func(stablehlo-legalize-quant-to-math)",
)

# Signs are needed until operations have become those of arith, which say how they read integers.
_STABLEHLO = ("stablehlo-legalize-to-linalg", _WITHOUT_SIGNS)

_BRANCHES = ("cf.br", "cf.cond_br", "cf.switch")

_NOT_LOWERED = re.compile(r"failed to legalize operation '([\w.]+)'")


def uses_dialect(module: ir.Module, dialect: str) -> bool:
    """Whether a module contains any operation of a dialect, given by its name."""
    return any(op.name.startswith(f"{dialect}.") for op in nested_operations(module.operation))


def run(module: ir.Module, *passes: str, is_verified: bool = True) -> None:
    """Run MLIR passes, given as elements of a textual pass pipeline, on a module.

    If ``is_verified``, the module is verified after each pass; otherwise, the caller has to verify
    the module.

    Raises:
        FindingsError: with the diagnostics of the pass that fails.
    """
    text = f"builtin.module({','.join(passes)})"
    manager = passmanager.PassManager.parse(text)
    manager.enable_verifier(is_verified)
    try:
        manager.run(module.operation)
    except ir.MLIRError as error:
        raise FindingsError(
            [
                DiagnosticError(info.location, _with_advice(str(info.message).splitlines()[0]))
                for info in error.error_diagnostics
            ]
            or [DiagnosticError(module.operation.location, f"'{text}' failed")]
        ) from error


def _with_advice(message: str) -> str:
    if "not bufferizable" in message or "not equivalent to the corresponding" in message:
        return (
            f"{message}: expected tensors that a loop carries to be updated in place, found one "
            "that is read, or yielded as another state, after it was changed; read it before the "
            "change, or carry a copy of it"
        )
    named = _NOT_LOWERED.match(message)
    if named is None:
        return message
    return (
        f"'{named[1]}': expected an operation that MLIR's passes lower to linalg, found one that "
        "they do not; give its result as an argument, or lower it to linalg first"
    )


def structure_control_flow(module: ir.Module) -> None:
    """Turn branches between blocks (dialect cf) into loops and branches of scf.

    If MLIR cannot do so, the branches remain, and a later check rejects them.
    """
    if any(True for _ in operations_named(module.operation, *_BRANCHES)):
        try:
            run(module, "func.func(lift-cf-to-scf,canonicalize)")
        except FindingsError:
            return  # refused with the advice for several blocks


def prepare_stablehlo(module: ir.Module) -> None:
    """Rewrite StableHLO into the operations that MLIR's lowering of StableHLO supports.

    CHLO is lowered to StableHLO, deprecated operations are replaced, StableHLO composites are
    inlined, and integer types become signless.
    """
    if stablehlo is None:
        return
    _lower_chlo(module)
    if uses_dialect(module, "stablehlo"):
        _drop_hints(module)
        run(module, *_STABLEHLO_PREPARED)
        _lower_chlo(module)  # of quantized arithmetic
        _make_logical(module)


def _lower_chlo(module: ir.Module) -> None:
    if uses_dialect(module, "chlo"):
        run(module, "func.func(chlo-legalize-to-stablehlo)")


def _drop_hints(module: ir.Module) -> None:
    """Erase operations and attributes of StableHLO that do not affect results.

    These are ``stablehlo.optimization_barrier``, and the attribute ``algorithm`` of
    ``stablehlo.dot_general``.
    """
    for op in operations_named(module.operation, "stablehlo.optimization_barrier"):
        replace(op, list(op.operands))
    for op in operations_named(module.operation, "stablehlo.dot_general"):
        if "algorithm" in op.attributes:
            del op.attributes["algorithm"]


def _has_signs(module: ir.Module) -> bool:
    """Whether any function argument has signed or unsigned integers, and the module has no TOSA.

    For modules with TOSA the result is False, because a TOSA pass makes their integers signless.
    """
    kinds = [
        element_of(argument.type)
        for op in operations_named(module.operation, "func.func")
        for block in op.regions[0].blocks
        for argument in block.arguments
    ]
    has_signs = any(isinstance(kind, ir.IntegerType) and not kind.is_signless for kind in kinds)
    return has_signs and not uses_dialect(module, "tosa")


_LOGICAL = {
    "stablehlo.add": "stablehlo.or", "stablehlo.maximum": "stablehlo.or",
    "stablehlo.multiply": "stablehlo.and", "stablehlo.minimum": "stablehlo.and",
}  # fmt: skip
"""Arithmetic operations of StableHLO, each with the equivalent logical operation on i1."""


def _make_logical(module: ir.Module) -> None:
    """Replace StableHLO arithmetic on i1 by logical operations, as StableHLO specifies.

    ``add`` and ``maximum`` become ``or``; ``multiply`` and ``minimum`` become ``and``. MLIR's
    lowering would add modulo 2, so that true + true would be false.
    """
    truth = ir.IntegerType.get_signless(1)
    for op in list(operations_named(module.operation, *_LOGICAL)):
        if element_of(op.results[0].type) == truth:
            with ir.InsertionPoint(op), op.location:
                kinds, operands = [op.results[0].type], list(op.operands)
                replace(op, list(ir.Operation.create(_LOGICAL[op.name], kinds, operands).results))


def _remove_empty_reductions(module: ir.Module) -> None:
    """Replace StableHLO's reductions over no dimension, which MLIR cannot lower, by their operands.

    The initial values are neutral, since StableHLO may combine them any number of times.
    """
    for op in list(operations_named(module.operation, "stablehlo.reduce")):
        if not len(ir.DenseI64ArrayAttr(op.attributes["dimensions"])):
            replace(op, list(op.operands)[: len(op.results)])


def lower_stablehlo(module: ir.Module) -> None:
    """Lower StableHLO to linalg; operations without a lowering remain unchanged."""
    if stablehlo is not None and (uses_dialect(module, "stablehlo") or _has_signs(module)):
        _remove_empty_reductions(module)
        run(module, *_STABLEHLO)
        for op in operations_named(module.operation, "builtin.unrealized_conversion_cast"):
            if [v.type for v in op.operands] == [v.type for v in op.results]:
                replace(op, list(op.operands))  # of types that differed by their signs
        run(module, "canonicalize", "cse")


def lower_tosa(module: ir.Module) -> None:
    """Lower TOSA to linalg and scf."""
    if uses_dialect(module, "tosa"):
        run(module, "func.func(tosa-convert-integer-type-to-signless)", *_TOSA)


def lower_affine_control_flow(module: ir.Module) -> None:
    """Lower loops and branches of the affine dialect to scf."""
    names = ("affine.for", "affine.if", "affine.parallel")
    if any(True for _ in operations_named(module.operation, *names)):
        run(module, "lower-affine")
