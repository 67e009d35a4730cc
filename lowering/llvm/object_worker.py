"""Runs the worker process that compiles LLVM IR to objects, for `object_compiler.py`."""

from __future__ import annotations

import time

import llvmlite.binding as llvm

from rammer_mlir.errors import TargetError
from rammer_mlir.lowering.llvm.codegen import emit_object
from rammer_mlir.lowering.llvm.object_messages import CompiledObject, request_of
from rammer_mlir.support.worker_messages import serve

_SKIPPED_PASS = "loop-load-elim"
"""A pass that takes half the time of all passes: it compares all pairs of a loop's accesses.

Most rKernels keep values in registers from one iteration to the next, so that the pass finds no
loads to replace. Other rKernels, such as running sums, get other code with the same results.
"""


def main() -> None:
    """Answer requests to compile LLVM IR, until standard input ends.

    A request on standard input has LLVM IR text and the target machine. The answer on standard
    output is the object, or an error message of one line.
    """
    # Options of LLVM apply to the whole process; in a process of the user's, they would also
    # change the code of other users of llvmlite.
    llvm.set_option("rammer", f"-opt-disable={_SKIPPED_PASS}")
    serve(_compiled, _error_line)


def _error_line(error: Exception) -> str:
    if isinstance(error, TargetError):
        return str(error)
    return " ".join(f"internal error ({type(error).__name__}: {error})".split())


def _compiled(content: bytes) -> bytes:
    text, machine = request_of(content)
    begin = time.thread_time()
    made = emit_object(text, machine)
    return CompiledObject(made, time.thread_time() - begin).encode()


if __name__ == "__main__":
    main()
