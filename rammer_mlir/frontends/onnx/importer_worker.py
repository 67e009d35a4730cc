"""The child process that runs torch-mlir's ONNX importer, started by `importer_child.py`.

Only torch-mlir has this importer, whichever bindings the project uses, and it can crash or hang on
unexpected input. It therefore runs in a separate process and returns bytecode. The process serves
requests on standard input until that is closed.
"""

from __future__ import annotations

import os
import re
import sys
from typing import IO

import onnx

from rammer_mlir.frontends.onnx.importer import import_graph
from rammer_mlir.frontends.onnx.importer_messages import FAILED, HEADER, OK

_ILLEGAL = re.compile(r"failed to legalize operation '([^']*)'")


def main() -> int:
    """Answer each model with bytecode or a one-line error until the input ends; return 0."""
    # Text that the importer prints must not mix with the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while header := sys.stdin.buffer.read(HEADER.size):
        _, length = HEADER.unpack(header)
        _serve(sys.stdin.buffer.read(length), answers)
    return 0


def _serve(content: bytes, answers: IO[bytes]) -> None:
    try:
        status, answer = OK, import_graph(onnx.ModelProto.FromString(content))
    except Exception as error:  # the importer raises any type
        status, answer = FAILED, _one_line(error).encode()
    answers.write(HEADER.pack(status, len(answer)) + answer)
    answers.flush()


def _one_line(error: Exception) -> str:
    """Return the most informative line of MLIR's diagnostics: the first error with a message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    errors = [line for line in lines if "error:" in line]
    line = (errors or lines or [type(error).__name__])[0]
    illegal = _ILLEGAL.search(line)
    return f"the ONNX importer cannot lower '{illegal[1]}' of these operands" if illegal else line


if __name__ == "__main__":
    sys.exit(main())
