"""Checks that a module obeys the rules of the stage `linalg`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rammer_mlir.bindings import ir
from rammer_mlir.passes.base import FindingsError, OperationError
from rammer_mlir.passes.ir.constants import argument_attributes
from rammer_mlir.passes.ir.element_types import SUPPORTED, dtype_of, element_of
from rammer_mlir.passes.ir.entry import functions, is_private
from rammer_mlir.passes.ir.loop_states import REGION
from rammer_mlir.passes.ir.structured import Structured
from rammer_mlir.passes.ir.traversal import nested_operations
from rammer_mlir.passes.legalization.sequential import (
    ALLOCATION,
    CONTROL_FLOW,
    MATERIALIZE,
    loop_problems,
)
from rammer_mlir.support.array_limits import MOST_DIMENSIONS

_MOST_FINDINGS = 50
"""Maximum number of findings that an error reports."""

_TENSOR_OPERATIONS = frozenset(
    {
        "tensor.empty", "tensor.collapse_shape", "tensor.expand_shape", "tensor.extract_slice",
        "tensor.insert_slice", "tensor.concat", "tensor.pad", "linalg.generic", "func.return",
        REGION,
    }
)  # fmt: skip
"""Operations that may stand directly in a function, besides constants and index arithmetic."""

_BODY_OPERATIONS = frozenset({"linalg.yield", "linalg.index", "tensor.extract", "tensor.yield"})
"""Operations that may stand in the body of a loop nest, besides arithmetic on scalars."""

_SEQUENTIAL_OPERATIONS = frozenset(
    {
        *(_TENSOR_OPERATIONS - {"tensor.concat", REGION}), *_BODY_OPERATIONS, *CONTROL_FLOW,
        "scf.yield", "scf.condition", "tensor.insert", "tensor.from_elements", "tensor.splat",
        "tensor.generate", "tensor.dim", ALLOCATION, MATERIALIZE,
    }
)  # fmt: skip
"""Operations that may stand in a loop or branch that a single rTask executes."""

_BODY_DIALECTS = ("arith", "math", "affine")

_ELEMENTS = (
    "integers of at most 64 bits, index, f32, f64, f16, bf16, complex<f32>, complex<f64> or floats "
    "of at most 8 bits"
)
"""Supported element types of inputs and outputs, as text for error messages."""

_ADVICE = {
    "cf": "give structured control flow (scf), or functions of one block",
    "chlo": "lower it to StableHLO in the tool that made it",
    "vhlo": "deserialize it with StableHLO's own tools",
    "memref": "give tensors, and leave bufferization to the compiler",
    "bufferization": "give tensors, and leave bufferization to the compiler",
    "vector": "give tensors, and leave vectorization to the compiler",
    "gpu": "compile launches with rammer_mlir.embedding.compile_launches",
    "scf": "use a number of steps that is known, and conditions on tensors without other effects",
    "func": "make the callee private and give it a body of one block that does not call itself",
    "complex": "give real and imaginary parts as tensors",
    "torch": "lower it with torch-mlir's torch-backend-to-linalg-on-tensors-backend-pipeline",
    "onnx": "compile the ONNX model itself",
    "shape": "give static shapes, or dimensions of inputs that bind all others",
}
"""Advice for error messages about unsupported operations, by dialect."""

_OF_REAL_NUMBERS = ("stablehlo.bitcast_convert", "stablehlo.maximum", "stablehlo.minimum")
"""Operations that are refused on complex numbers.

On complex numbers, MLIR's lowering of these operations crashes or gives wrong results.
"""

_COLLECTIVES = frozenset(
    f"stablehlo.{name}"
    for name in (
        "after_all", "all_gather", "all_reduce", "all_to_all", "collective_broadcast",
        "collective_permute", "create_token", "infeed", "outfeed", "partition_id", "recv",
        "reduce_scatter", "replica_id", "send",
    )
)  # fmt: skip
"""Operations that communicate with other devices or the host, or ask for the device's number."""

_OPERATION_ADVICE = {
    "stablehlo.rng": "give random numbers as an argument, or use rng_bit_generator and a state",
    "stablehlo.cbrt": "give real numbers, or a power of the complex ones (stablehlo.power)",
    "stablehlo.tuple": "pass its elements as values of their own",
    "stablehlo.get_tuple_element": "use the value that the tuple was made of",
    "stablehlo.custom_call": "replace the call by operations, or give its result as an argument",
    "stablehlo.select_and_scatter": "give one that compares elements and adds sources",
    "stablehlo.triangular_solve": "give real numbers and static shapes",
    "tm_tensor.attention": "give static shapes, equal ranks and floats of one type",
    "tm_tensor.scan": "give static shapes, and combine elements by one associative operation",
    "tm_tensor.scatter": "give static shapes, and an index or a window for each dimension",
    "tm_tensor.sort": (
        "give static shapes, at most 4096 elements along the dimension, and compare floats by one "
        "arith.cmpf"
    ),
    "tm_tensor.topk": (
        "give static shapes, at most 4096 elements along the dimension, no more results than "
        "elements, and results that start at a limit of their type"
    ),
    "stablehlo.fft": "give static shapes and at most 2048 elements along a dimension",
}
"""Advice for error messages by operation; it is preferred to the advice for the dialect."""


def check_interface(function: ir.OpView) -> None:
    """Check the types of a function's arguments and results, before any rewrite.

    Raises:
        FindingsError: if arguments or results have unsupported types; the error lists at most 50.
    """
    found = list(_interface_problems(function))
    if found:
        raise FindingsError(found[:_MOST_FINDINGS])


def check_given(module: ir.Module) -> None:
    """Check that a module has no code that the rewrites of `rtask-legalize` cannot handle.

    This code is refused: functions of several blocks, unranked tensors, communication between
    devices, and operations on complex numbers that MLIR's passes would crash on or lower wrongly.

    Raises:
        FindingsError: if there is such code; the error lists at most 50 findings.
    """
    found = [problem for function in functions(module) for problem in _given_problems(function)]
    if found:
        raise FindingsError(found[:_MOST_FINDINGS])


def check_before_lifting(module: ir.Module) -> None:
    """Check the rules that have to hold before scalars are lifted to 0-D tensors.

    Shapes must be static. A tensor that a loop carries must be updatable in place by the loop.

    Raises:
        FindingsError: if loops or shapes break these rules; the error lists at most 50 violations.
    """
    found = loop_problems(module.operation)
    for function in functions(module):
        if not is_private(function):
            found += _dynamic_shapes(function.operation)
    if found:
        raise FindingsError(found[:_MOST_FINDINGS])


def check_operations(module: ir.Module) -> None:
    """Check that a module has only operations of the stage `linalg`.

    Element types that are stored in other types later, such as complex numbers, are allowed.

    Raises:
        FindingsError: if there are unsupported operations; the error lists at most 50.
    """
    found: list[OperationError] = []
    for op in _entry_operations(module):
        found.extend(_nest_problems(op, (*_BODY_DIALECTS, "complex"), is_stored=False))
    if found:
        raise FindingsError(found[:_MOST_FINDINGS])


def check_legal(module: ir.Module) -> None:
    """Check that a module's operations, shapes and element types are legal at stage `linalg`.

    Raises:
        FindingsError: if there are operations or types that the compiler does not support; the
            error lists at most 50.
    """
    found: list[OperationError] = []
    for function in functions(module):
        if not is_private(function):
            found.extend(_interface_problems(function, is_static=True))
    for op in _entry_operations(module):
        found.extend(_nest_problems(op, _BODY_DIALECTS, is_stored=True))
    if found:
        raise FindingsError(found[:_MOST_FINDINGS])


def _entry_operations(module: ir.Module) -> Iterator[ir.Operation]:
    """Yield the top-level operations of all public functions."""
    for function in functions(module):
        if not is_private(function):
            yield from (op.operation for op in function.operation.regions[0].blocks[0].operations)


def _interface_problems(
    function: ir.OpView, *, is_static: bool = False
) -> Iterator[OperationError]:
    operation = function.operation
    kind = ir.FunctionType(ir.TypeAttr(operation.attributes["function_type"]).value)
    values = [*((f"argument {n}", k) for n, k in enumerate(kind.inputs))]
    values += [*((f"result {n}", k) for n, k in enumerate(kind.results))]
    for name, found in values:
        problem = _type_problem(found, is_static=is_static)
        if problem:
            yield OperationError(operation, f"{name}: {problem}")
    if any("rtask.inout" in marks for marks in argument_attributes(function)):
        yield OperationError(
            operation, "expected arguments that nobody changes, found 'rtask.inout'; leave it out"
        )
    if not kind.results:
        yield OperationError(
            operation, "expected at least one result, found none; return the tensors to compute"
        )


def _type_problem(kind: ir.Type, *, is_static: bool) -> str:
    """Return the error message about the type of a value; empty if the type is valid.

    If ``is_static``, the shape has to be static.
    """
    if isinstance(kind, ir.UnrankedTensorType | ir.UnrankedMemRefType):
        return f"expected a tensor with a number of dimensions, found {kind}; give it a shape"
    if isinstance(kind, ir.MemRefType):
        return f"expected a tensor, found {kind}; {_ADVICE['memref']}"
    if isinstance(kind, ir.ShapedType) and not isinstance(kind, ir.RankedTensorType):
        return f"expected a tensor, found {kind}; {_ADVICE['vector']}"
    if isinstance(kind, ir.RankedTensorType):
        if kind.rank > MOST_DIMENSIONS:
            return f"expected at most {MOST_DIMENSIONS} dimensions, found {kind.rank}; reshape it"
        if kind.encoding is not None:
            return f"expected a dense tensor, found {kind}; leave its encoding out"
        if is_static and not kind.has_static_shape:
            return (
                f"expected a static shape, found {kind}; let dimensions of inputs bind it, or give "
                "it a size"
            )
    element = element_of(kind)
    is_held = not is_static or str(element) in SUPPORTED or not isinstance(kind, ir.ShapedType)
    if dtype_of(element) is None or not is_held:
        return f"expected elements of {_ELEMENTS}, found {kind}; convert them"
    return ""


def _given_problems(function: ir.OpView) -> Iterator[OperationError]:
    operation = function.operation
    blocks = list(operation.regions[0].blocks)
    if len(blocks) > 1:
        yield OperationError(operation, f"expected one block, found {len(blocks)}; {_ADVICE['cf']}")
    for op in nested_operations(operation):
        for value in op.results:
            if isinstance(value.type, ir.UnrankedTensorType):
                yield OperationError(
                    op,
                    f"expected a tensor with a number of dimensions, found {value.type}; give "
                    "it a shape",
                )
        if op.name in _COLLECTIVES:
            yield OperationError(
                op,
                f"expected a program of one device, found '{op.name}'; compile each device's part, "
                "and communicate between runs",
            )
        if op.name in _OF_REAL_NUMBERS:
            kinds = [value.type for value in (*op.operands, *op.results)]
            if any(isinstance(element_of(kind), ir.ComplexType) for kind in kinds):
                yield OperationError(
                    op, f"expected real numbers, found {kinds[0]}; {_ADVICE['complex']}"
                )


def _dynamic_shapes(root: ir.Operation) -> Iterator[OperationError]:
    """Yield an error for each operation in ``root`` that has a result without a static shape."""
    for op in nested_operations(root):
        for value in op.results:
            if isinstance(value.type, ir.RankedTensorType) and not value.type.has_static_shape:
                yield OperationError(op, _type_problem(value.type, is_static=True))
                break


def _nest_problems(
    op: ir.Operation, dialects: Sequence[str], *, is_stored: bool
) -> Iterator[OperationError]:
    """Yield the errors of a function's top-level operation and of the operations nested in it.

    Args:
        op: the top-level operation.
        dialects: the dialects whose operations on scalars are allowed.
        is_stored: whether unsupported element types have already been replaced. If so, tensors must
            have static shapes and element types in ``SUPPORTED``.
    """
    problem = _name_problem(op, _TENSOR_OPERATIONS, dialects)
    if problem:
        yield OperationError(op, problem)
        return  # its nested operations go with it
    known = _SEQUENTIAL_OPERATIONS if op.name == REGION else _BODY_OPERATIONS
    for each, names in ((op, _TENSOR_OPERATIONS), *((i, known) for i in nested_operations(op))):
        problem = (
            _name_problem(each, names, dialects)
            or _results_problem(each, is_stored)
            or _coverage_problem(each)
        )
        if problem:
            yield OperationError(each, problem)


def _coverage_problem(op: ir.Operation) -> str:
    """Return an error message if a ``linalg.generic`` leaves elements of a result unwritten.

    Return an empty string if the loops write all elements. A result may stay partly unwritten if
    the body reads its destination: the unwritten elements then keep the destination's values.
    """
    if op.name != "linalg.generic":
        return ""
    nest = Structured(op.opview)
    for number, (value, map_) in enumerate(zip(nest.outputs, nest.output_maps, strict=True)):
        is_read = nest.reads_output(number)
        if not is_read and not _covers(map_, ir.ShapedType(value.type).shape):
            return (
                f"expected loops that cover each result, found the indexing map {map_}; compute "
                "all elements, or insert the computed ones by tensor.insert_slice"
            )
    return ""


def _covers(map_: ir.AffineMap, shape: Sequence[int]) -> bool:
    """Whether the loops of an operation write every element of an output.

    ``map_`` is the output's indexing map, ``shape`` its shape. Each dimension must be indexed by a
    loop that indexes no other dimension, or have size 1.
    """
    results = list(map_.results)
    loops = [str(each) for each in results if isinstance(each, ir.AffineDimExpr)]
    others = [
        size
        for each, size in zip(results, shape, strict=True)
        if not isinstance(each, ir.AffineDimExpr)
    ]
    return len({*loops}) == len(loops) and all(size == 1 for size in others)


def _advice(op: ir.Operation) -> str:
    """Return the remedy that the error message about the unsupported operation ``op`` gives."""
    found = _OPERATION_ADVICE.get(op.name) or _ADVICE.get(op.name.partition(".")[0])
    return found or "lower it to linalg on tensors first"


def _name_problem(op: ir.Operation, known: frozenset[str], dialects: Sequence[str]) -> str:
    dialect = op.name.partition(".")[0]
    if op.name in known or dialect in dialects:
        return ""
    if op.name in _TENSOR_OPERATIONS:
        parent = op.parent
        outside = "" if parent is None else f" inside of '{parent.name}'"
        return (
            f"expected operations on scalars, found '{op.name}'{outside}; "
            "move it in front of that operation"
        )
    return f"expected linalg, tensor, arith and math operations, found '{op.name}'; {_advice(op)}"


def _results_problem(op: ir.Operation, is_stored: bool) -> str:
    problems = (_type_problem(value.type, is_static=is_stored) for value in op.results)
    return next(filter(None, problems), "")
