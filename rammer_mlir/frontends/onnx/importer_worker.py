"""Runs torch-mlir's ONNX importer in a child process, which `importer_child.py` starts.

The importer runs in a separate process and returns MLIR bytecode, for two reasons: it needs
torch-mlir's MLIR bindings, while the compiler may use other bindings; and it can crash or hang on
unexpected input. The process serves requests until standard input ends.
"""

from __future__ import annotations

import re

import onnx

from rammer_mlir.frontends.onnx.importer import import_graph
from rammer_mlir.support.worker_messages import serve

_ILLEGAL = re.compile(r"failed to legalize operation '([^']*)'")


def main() -> None:
    """Read requests from standard input, each a serialized model, and write the answers.

    An answer is the model as MLIR bytecode, or a one-line error.
    """
    serve(_imported, _one_line)


def _imported(content: bytes) -> bytes:
    return import_graph(onnx.ModelProto.FromString(content))


def _one_line(error: Exception) -> str:
    """Return the first error of MLIR's diagnostics as one line.

    If the error is an operation that cannot be legalized, the line names the operation.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    errors = [line for line in lines if "error:" in line]
    line = (errors or lines or [type(error).__name__])[0]
    illegal = _ILLEGAL.search(line)
    return f"the ONNX importer cannot lower '{illegal[1]}' of these operands" if illegal else line


if __name__ == "__main__":
    main()
