"""Defines ``rtask.kernel``, the description of an rKernel."""

from math import inf, prod

import numpy as np

from rammer_mlir.bindings import ir
from rammer_mlir.dialects.rtask.accesses import Access, read_accesses
from rammer_mlir.dialects.rtask.coverage import first_miscovered
from rammer_mlir.dialects.rtask.diagnostics import (
    Broken,
    attribute,
    inside,
    integer,
    module_of,
    symbol,
    verified,
)
from rammer_mlir.dialects.rtask.dialect import RTask
from rammer_mlir.dialects.rtask.external import check_external
from rammer_mlir.dialects.rtask.functions import (
    buffer_shape,
    find_function,
    is_kernel,
    signature,
)

UPDATES = "updates"

_MATRIX_ELEMENTS = ("f16", "bf16", "tf32")

_LEAST = {
    "num_rtasks": 1,
    "threads": 1,
    "shared_memory": 0,
    "barriers": 0,
    "operations": 0,
    "bytes": 0,
}


class KernelOp(RTask.Operation, name="kernel"):
    """The description of an rKernel, a function ``(rTask id, buffers...)`` that computes a tile.

    - ``function`` and ``num_rtasks``: the paper's ``compute_rtask`` and ``get_total_rtask_num``.
    - ``threads``, ``shared_memory``, ``barriers``: the threads, the bytes of shared memory and the
      block-level synchronizations of each rTask.
    - ``operations``, ``bytes``: the arithmetic operations that each rTask performs, and the bytes
      that it moves.
    - ``seconds`` (optional): three measured times of an rTask: with its data in the core's cache
      (hot), after reads of 16 MiB of other data (cold), and after reads of 128 MiB of other data
      (far).
    - ``reads``, ``writes``: the boxes of arguments that rTask ``d0`` reads and writes (see
      ``Access``). Each element of an argument in ``writes`` is in exactly one box.
    - ``updates`` (optional): boxes that the rTask may both read and write. These boxes need not
      cover the argument and may overlap. rOperators that update the same buffer do so in the order
      of the rOperators' ids.
    - ``external`` (optional): the foreign function that implements the rKernel (see ``External``);
      ``function`` is then a declaration.
    - ``matrix_element`` (optional; f16, bf16 or tf32): the element type of the matrix instructions
      that perform most of the operations.
    """

    function: ir.FlatSymbolRefAttr
    num_rtasks: ir.IntegerAttr
    threads: ir.IntegerAttr
    shared_memory: ir.IntegerAttr
    barriers: ir.IntegerAttr
    operations: ir.IntegerAttr
    bytes: ir.IntegerAttr
    reads: ir.ArrayAttr
    writes: ir.ArrayAttr

    @staticmethod
    def verify_invariants(op: ir.OpView) -> bool:
        """Whether the attributes are valid, and ``writes`` covers each output element exactly once.

        The attributes are costs, the name of the rKernel's function, and accesses. If a rule is
        broken, emit a diagnostic for the first broken rule.
        """
        return verified(lambda: _check(op.operation))


def _check(op: ir.Operation) -> None:
    inside(op, "builtin.module")
    for key, least in _LEAST.items():
        rule = "counts are positive" if least else "costs are not negative"
        integer(op, key, at_least=least, rule=rule)
    if "seconds" in op.attributes:
        _check_seconds(op)
    if "matrix_element" in op.attributes:
        _check_matrix_element(op)
    name = symbol(op, "function")
    function = find_function(op, ir.SymbolTable(module_of(op)), name)
    inputs, _ = signature(function)
    if not is_kernel(function):
        got = inputs[0] if inputs else "none"
        raise Broken(
            op, f"index as first argument of @{name}", got, "an rKernel takes its rTask's id"
        )
    check_external(op, function)
    arguments = inputs[1:]
    for access in read_accesses(op, "reads"):
        _check_access(op, "reads", access, arguments)
    writes = read_accesses(op, "writes")
    updates = read_accesses(op, UPDATES) if UPDATES in op.attributes else []
    if not writes and not updates:
        raise Broken(
            op, "at least one access in writes or updates", "none", "an rTask has an output"
        )
    for access in updates:
        _check_access(op, UPDATES, access, arguments)
    for access in writes:
        _check_access(op, "writes", access, arguments)
    _check_coverage(op, writes, updates, arguments)


def _check_seconds(op: ir.Operation) -> None:
    # Not declared as a field: an operation defined from Python has no optional attributes.
    seconds = list(attribute(op, "seconds", ir.DenseF64ArrayAttr))
    if len(seconds) != 3 or not all(0 < value < inf for value in seconds):
        rule = "a time is measured with memory in cache, beyond it, and far away"
        raise Broken(op, "three positive, finite seconds", seconds, rule)


def _check_matrix_element(op: ir.Operation) -> None:
    element = attribute(op, "matrix_element", ir.StringAttr).value
    if element not in _MATRIX_ELEMENTS:
        raise Broken(
            op, f"one of {', '.join(_MATRIX_ELEMENTS)} as matrix_element", element,
            "devices have rates of these types",
        )  # fmt: skip


def _check_access(op: ir.Operation, key: str, access: Access, arguments: list[ir.Type]) -> None:
    if not 0 <= access.argument < len(arguments):
        raise Broken(
            op,
            f"an argument in 0..{len(arguments) - 1} in {key}",
            access.argument,
            "arguments count from 0 after the rTask's id",
        )
    where = f"argument {access.argument} in {key}"
    shape = buffer_shape(arguments[access.argument])
    if shape is None:
        raise Broken(
            op,
            f"a tensor or memref of static shape as {where}",
            arguments[access.argument],
            "rTasks touch boxes of buffers",
        )
    if (access.offsets.n_dims, access.offsets.n_symbols) != (1, 0):
        raise Broken(
            op,
            f"offsets of one dimension for {where}",
            access.offsets,
            "d0 is the rTask's id",
        )
    ranks = (len(access.offsets.results), len(access.sizes))
    if ranks != (len(shape), len(shape)):
        raise Broken(
            op,
            f"{len(shape)} offsets and sizes for {where}",
            f"{ranks[0]} and {ranks[1]}",
            "a box has the rank of its argument",
        )
    if any(size < 1 for size in access.sizes):
        raise Broken(op, f"sizes >= 1 for {where}", list(access.sizes), "a full tile is not empty")


def _check_coverage(
    op: ir.Operation, writes: list[Access], updates: list[Access], arguments: list[ir.Type]
) -> None:
    num_rtasks = ir.IntegerAttr(op.attributes["num_rtasks"]).value
    if not writes:
        return
    shapes = {w.argument: buffer_shape(arguments[w.argument]) or () for w in writes}
    elements = max(prod(shape) for shape in shapes.values())
    if num_rtasks > max(elements, 1):
        raise Broken(
            op,
            f"num_rtasks <= {elements}, the elements of the largest output",
            num_rtasks,
            "every rTask writes an element of its own",
        )
    nonempty = np.zeros(num_rtasks, np.bool_)
    for access in updates:
        shape = buffer_shape(arguments[access.argument]) or ()
        firsts, lasts = access.boxes(num_rtasks, shape)
        nonempty |= (firsts < lasts).all(axis=1)
    for argument, shape in shapes.items():
        boxes = [w.boxes(num_rtasks, shape) for w in writes if w.argument == argument]
        for firsts, lasts in boxes:
            nonempty |= (firsts < lasts).all(axis=1)
        starts, ends = (np.concatenate(part) for part in zip(*boxes, strict=True))
        found = first_miscovered(starts, ends, shape)
        if found is not None:
            element, times = found
            raise Broken(
                op,
                f"every element of argument {argument} in one rTask's box",
                f"element {list(element)} in {times}",
                "the tiles cover each output exactly once",
            )
    if elements and not nonempty.all():
        raise Broken(
            op,
            "every rTask to write an element of an output",
            f"none of rTask {int(nonempty.argmin())}",
            "boxes may exceed an output, but not lie outside of it",
        )
