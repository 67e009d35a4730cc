"""The child process that runs torch-mlir's ONNX importer: ``python -m ... MODEL OUTPUT``.

The importer is torch-mlir's alone, whichever bindings the rest of the project uses, and it can abort
or hang on what it does not expect. So it runs in a process of its own and hands back bytecode.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import onnx

from rammer_mlir.frontends.onnx.importer import import_graph, unsupported_nodes


def main(arguments: list[str]) -> int:
    """Import a prepared model; write bytecode, or a list of what is not supported as JSON."""
    source, target, report = (Path(argument) for argument in arguments)
    model = onnx.load(source)
    try:
        target.write_bytes(import_graph(model))
    except Exception as error:  # the importer raises whatever it meets
        lines = str(error).strip().splitlines() or [type(error).__name__]
        problems = {"message": lines[0], "nodes": unsupported_nodes(model)}
        report.write_text(json.dumps(problems))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
