"""Builds the modules by which providers offer rKernels in C, LLVM IR, object code, PTX or CUDA."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rammer_mlir.bindings import ir
from rammer_mlir.dialects.rtask.external import External
from rammer_mlir.dialects.rtask.module_op import LINKED
from rammer_mlir.errors import OptionError
from rammer_mlir.passes.ir.boxes_text import Box, accesses_of, box_problems
from rammer_mlir.passes.ir.code_modules import emit_module
from rammer_mlir.passes.ir.kernels import describe_kernel
from rammer_mlir.passes.tiling.providers import OfferedOperator

_KERNEL, _MODULE = "kernel", "code"


def external_rkernel(
    operator: OfferedOperator,
    code: str | bytes,
    symbol: str,
    *,
    form: str = "c",
    num_rtasks: int = 1,
    reads: Mapping[int, Box] | None = None,
    writes: Mapping[int, Box] | None = None,
    operations: int,
    num_bytes: int,
) -> ir.Module:
    """Return a provider's offer for an rOperator: an rKernel whose function is in ``code``.

    The function is ``int32_t symbol(int64_t rtask, const T *input0, ..., T *output0, ...)``: it
    computes one rTask, accesses only the boxes of this rTask, and returns 0 if it succeeds.
    On a GPU, all threads of the block that runs the rTask call
    ``void symbol(int64_t rtask, int32_t thread, int32_t threads, const T *input0, ...)``.
    Arrays are dense in row-major order. They are aligned to 64 bytes, except for inputs and outputs
    of the model, which have the alignment of the caller's arrays.

    Args:
        operator: the rOperator that the rKernel computes, as passed to the provider.
        code: the source text, or the bytes of an object file.
        symbol: the function's name in ``code``.
        form: ``c``, ``llvm`` (LLVM IR as text) or ``object`` (a relocatable object); for GPUs
            ``llvm``, and for those of NVIDIA ``ptx`` (PTX) or ``cuda`` (CUDA source).
        num_rtasks: count of rTasks; each may run on a different vEU.
        reads: the box (offsets and sizes) of an input that rTask ``d0`` reads, by the input's
            index; each rTask reads the whole of an input without an entry.
        writes: the box of an output that rTask ``d0`` writes, by the output's index from 0; an
            output without an entry is written whole, which allows only a single rTask.
        operations: arithmetic operations per rTask.
        num_bytes: bytes that each rTask reads and writes.

    Raises:
        OptionError: if ``form`` is unknown, ``code`` is neither text nor bytes, a number is not
            an integer, or a box does not fit an input or output.

    Example::

        external_rkernel(operator, SOURCE, "halves", num_rtasks=4, operations=16, num_bytes=128,
                         reads={0: [("d0 * 16", 16)]}, writes={0: [("d0 * 16", 16)]})
    """
    numbers = {"num_rtasks": num_rtasks, "operations": operations, "num_bytes": num_bytes}
    _check_code(form, code, symbol)
    _check_numbers(numbers)
    _check_boxes("reads", operator.inputs, reads)
    _check_boxes("writes", operator.outputs, writes)
    module = ir.Module.create()
    with ir.InsertionPoint(module.body):
        emit_module(_MODULE, form, code)
        ir.Operation.create(
            "func.func",
            attributes={
                "sym_name": ir.StringAttr.get(_KERNEL),
                "sym_visibility": ir.StringAttr.get("private"),
                "function_type": ir.TypeAttr.get(operator.kernel_type),
            },
            regions=1,
        )
        accesses = {
            "reads": accesses_of(operator.inputs, reads or {}, 0),
            "writes": accesses_of(operator.outputs, writes or {}, len(operator.inputs)),
        }
        external = External(_MODULE, symbol).as_attribute()
        describe_kernel(_KERNEL, num_rtasks, accesses, operations, num_bytes, external=external)
    return module


def _check_code(form: object, code: object, symbol: object) -> None:
    if form not in LINKED:
        raise OptionError(f"form of code: expected one of {', '.join(LINKED)}, found {form!r}")
    if not isinstance(code, str | bytes):
        raise OptionError(f"code: expected text or bytes, found {type(code).__name__}")
    if not isinstance(symbol, str):
        raise OptionError(f"symbol: expected the name of a function, found {symbol!r}")


def _check_numbers(numbers: Mapping[str, object]) -> None:
    for name, number in numbers.items():
        if type(number) is not int or not 0 <= number < 1 << 63:
            raise OptionError(f"{name}: expected an integer from 0 to 2^63 - 1, found {number!r}")


def _check_boxes(side: str, kinds: Sequence[ir.Type], boxes: Mapping[int, Box] | None) -> None:
    for expected, found in box_problems(kinds, boxes or {}):
        raise OptionError(f"{side}: expected {expected}, found {found}")
