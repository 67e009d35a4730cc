"""Running the importer in a child process, so that its aborts and hangs are errors and no more."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import onnx

from rammer_mlir.errors import UnsupportedError

_SECONDS = 300
"""After this long the importer is taken to hang."""


def import_in_child(model: onnx.ModelProto) -> bytes:
    """Import a prepared model without large weights; return bytecode.

    Raises:
        UnsupportedError: naming what cannot be imported.
    """
    with tempfile.TemporaryDirectory(prefix="rammer-import-") as folder:
        source, target, report = (
            Path(folder, name) for name in ("model.onnx", "module.mlirbc", "report.json")
        )
        source.write_bytes(model.SerializeToString())
        command = [sys.executable, "-m", "rammer_mlir.frontends.onnx.worker"]
        command += [str(source), str(target), str(report)]
        try:
            result = subprocess.run(
                command, capture_output=True, text=True, timeout=_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise UnsupportedError(
                f"the ONNX importer did not finish in {_SECONDS} s: the model holds an operator "
                f"that it hangs on; it has {_kinds(model)}"
            ) from error
        if result.returncode == 0 and target.exists():
            return target.read_bytes()
        raise UnsupportedError(_explain(model, report, result))


def _explain(model: onnx.ModelProto, report: Path, result: subprocess.CompletedProcess[str]) -> str:
    if report.exists():
        problems = json.loads(report.read_text())
        if problems["nodes"]:
            return f"not supported: {', '.join(problems['nodes'])}"
        return f"the model cannot be imported: {problems['message']}"
    lines = [line for line in result.stderr.splitlines() if line.strip()]
    last = lines[-1] if lines else f"exit status {result.returncode}"
    return f"the ONNX importer gave up ({last}): one of {_kinds(model)} is not supported as used"


def _kinds(model: onnx.ModelProto) -> str:
    return ", ".join(sorted({node.op_type for node in model.graph.node}))
