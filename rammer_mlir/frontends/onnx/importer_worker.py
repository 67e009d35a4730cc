"""The child process that runs torch-mlir's ONNX importer, started by `importer_child.py`.

The importer is torch-mlir's alone, whichever bindings the rest of the project uses, and it can
abort or hang on what it does not expect. So it runs in its own process and hands back bytecode.
It serves requests on standard input until that is closed.
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
    """Answer each model with its bytecode, or with one line that says why there is none."""
    # What the importer prints must not get between the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while header := sys.stdin.buffer.read(HEADER.size):
        _, length = HEADER.unpack(header)
        _serve(sys.stdin.buffer.read(length), answers)
    return 0


def _serve(content: bytes, answers: IO[bytes]) -> None:
    try:
        status, answer = OK, import_graph(onnx.ModelProto.FromString(content))
    except Exception as error:  # the importer raises whatever it meets
        status, answer = FAILED, _one_line(error).encode()
    answers.write(HEADER.pack(status, len(answer)) + answer)
    answers.flush()


def _one_line(error: Exception) -> str:
    """Return the line of MLIR's diagnostics that tells most: the first error with a message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    errors = [line for line in lines if "error:" in line]
    line = (errors or lines or [type(error).__name__])[0]
    illegal = _ILLEGAL.search(line)
    return f"the ONNX importer cannot lower '{illegal[1]}' of these operands" if illegal else line


if __name__ == "__main__":
    sys.exit(main())
