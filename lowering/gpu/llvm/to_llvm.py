"""Lowers the gpu dialect to LLVM IR text, by lowering steps that both GPU targets share."""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.bindings import ir, llvm
from rammer_mlir.errors import PassError, UnsupportedError
from rammer_mlir.lowering.gpu.program.barriers import PAUSE
from rammer_mlir.lowering.ir_walk import walk
from rammer_mlir.lowering.llvm.expand_exponentials import expand_exponentials
from rammer_mlir.lowering.llvm.expand_float_to_integer import expand_float_to_integer
from rammer_mlir.lowering.llvm.expand_libm_functions import expand_libm_functions
from rammer_mlir.lowering.llvm.narrow_floats import convert_through_f32
from rammer_mlir.lowering.llvm.steps import Step
from rammer_mlir.lowering.llvm.translation import to_llvm_ir
from rammer_mlir.passes.contractions.byte_product import defined_by
from rammer_mlir.passes.ir.structured import element_bytes

_EXPANDED = "clampf,fpowi,rsqrt"
"""Functions of the math dialect that an upstream pass expands into other functions."""

_INTRINSICS = {
    "math.absf": "fabs",
    "math.ceil": "ceil",
    "math.copysign": "copysign",
    "math.floor": "floor",
    "math.fma": "fma",
    "math.round": "round",
    "math.roundeven": "roundeven",
    "math.sqrt": "sqrt",
    "math.trunc": "trunc",
}
"""LLVM's intrinsic, by math operation, for functions that GPUs round correctly."""

_INTEGER_MATH = frozenset(("math.absi", "math.ctlz", "math.cttz", "math.ctpop"))


def contract_floats(module: ir.Module) -> None:
    """Permit LLVM to contract a product and a sum or difference of floats to an fma instruction.

    A sum of two products is not contracted: the fma would round only one of the products, so that
    x * x - z * z might be negative for equal x and z. A product that has other uses is not
    contracted either: all its uses see the same number.
    """
    contract = ir.Attribute.parse("#arith.fastmath<contract>")
    for operation in walk(module.operation):
        product = _only_product(operation)
        if product is not None:
            for part in (operation, product):
                part.attributes["fastmath"] = contract


def _only_product(operation: ir.Operation) -> ir.Operation | None:
    """Return the only product in a sum or difference if it has no other uses; None otherwise."""
    if operation.name not in ("arith.addf", "arith.subf"):
        return None
    products = [found for found in map(_product, operation.operands) if found is not None]
    if len(products) != 1:
        return None
    return products[0] if _is_read_once(products[0], operation) else None


def _is_read_once(product: ir.Operation, reader: ir.Operation) -> bool:
    """Whether only ``reader`` reads a product, directly or through negations."""
    users = [use.owner.operation for use in product.result.uses]
    while len(users) == 1 and users[0].name == "arith.negf":
        users = [use.owner.operation for use in users[0].result.uses]
    return users == [reader]


def _product(value: ir.Value) -> ir.Operation | None:
    """Return the multiplication that defines a value, looking through negations; None if none."""
    negation = defined_by(value, "arith.negf")
    if negation is not None:
        return _product(negation.operands[0])
    return defined_by(value, "arith.mulf")


def call_intrinsics(module: ir.Module) -> None:
    """Replace the math operations that ``_INTRINSICS`` lists by calls of LLVM's intrinsics.

    MLIR's conversions of the gpu dialect would call the GPU vendor's libraries instead.
    """
    for operation in walk(module.operation):
        intrinsic = _INTRINSICS.get(operation.name)
        if intrinsic is None:
            continue
        kind = operation.result.type
        name = f"llvm.{intrinsic}.f{8 * element_bytes(kind)}"
        with ir.InsertionPoint(operation), operation.location:
            call = llvm.call_intrinsic(kind, name, list(operation.operands), [], [])
        operation.result.replace_all_uses_with(call)
        operation.erase()


def check_math(module: ir.Module) -> None:
    """Check that no math function is left that would become a library call.

    LLVM's code generators would abort the process on such a call.

    Raises:
        UnsupportedError: if such a function is left; the message names the function and its type.
    """
    for operation in walk(module.operation):
        if operation.name == "arith.remf" or _is_unknown_math(operation.name):
            raise UnsupportedError(
                f"{operation.location}: expected functions that GPUs have or that are expanded, "
                f"found {operation.name} on {operation.result.type}; use the CPU target"
            )


def _is_unknown_math(name: str) -> bool:
    return name.startswith("math.") and name not in _INTEGER_MATH


MATH_STEPS = (
    Step("narrow-math", "gpu.module(math-extend-to-supported-types{target-type=f32})"),
    Step("float-to-integer", expand_float_to_integer),
    Step("wide-floats", convert_through_f32),
    Step("expand-math", f"gpu.module(math-expand-ops{{ops={_EXPANDED}}})"),
    Step("contract", contract_floats),
    Step("libm-functions", expand_libm_functions),
    Step("exponentials", expand_exponentials),
    Step("intrinsics", call_intrinsics),
    Step("check-math", check_math),
    Step("integers", "gpu.module(convert-math-to-llvm)"),
)
"""Lowering steps that expand math functions without a GPU instruction, so no library is linked."""


def lower_steps(module: ir.Module, steps: Sequence[Step]) -> None:
    """Run lowering steps on a module that contains a gpu module, in place."""
    with module.context, ir.Location.unknown():
        for step in steps:
            step.apply(module)
        module.operation.verify()


def gpu_module(module: ir.Module) -> ir.Operation:
    """Return the first gpu module that a module contains.

    Raises:
        PassError: if there is none.
    """
    for operation in module.body.operations:
        if operation.operation.name == "gpu.module":
            return operation.operation
    raise PassError("expected a gpu.module, found none: run rtask-lower-to-gpu first")


def define_pause(module: ir.Module, body: str) -> None:
    """Define the function that a waiting thread calls between reads of a step counter.

    ``body`` is the MLIR text of the function's body, without the return.
    """
    holder = gpu_module(module)
    block = holder.regions[0].blocks[0]
    for operation in [op.operation for op in block.operations]:
        if _is_pause(operation):
            text = f"func.func private @{PAUSE}() {{\n{body}\n  return\n}}"
            defined = ir.Module.parse(text)
            function = defined.body.operations[0].operation
            function.detach_from_parent()
            ir.InsertionPoint(operation).insert(function)
            operation.erase()


def _is_pause(operation: ir.Operation) -> bool:
    if operation.name != "func.func":
        return False
    return ir.StringAttr(operation.attributes["sym_name"]).value == PAUSE


def hide_functions(module: ir.Module) -> None:
    """Make all functions except the kernel internal, to let LLVM remove those without calls."""
    internal = ir.Attribute.parse("#llvm.linkage<internal>")
    for operation in walk(gpu_module(module)):
        if operation.name == "llvm.func" and len(operation.regions[0].blocks):
            if not _is_kernel(operation):
                operation.attributes["linkage"] = internal


def _is_kernel(operation: ir.Operation) -> bool:
    return any(name in operation.attributes for name in ("nvvm.kernel", "rocdl.kernel"))


def gpu_llvm_ir(module: ir.Module) -> str:
    """Return the gpu module in ``module`` as LLVM IR text.

    All operations of the gpu module must be in the LLVM dialect.
    """
    return to_llvm_ir(gpu_module(module))
