"""Calls torch-mlir's importer in a worker process, so that crashes and hangs become errors."""

from __future__ import annotations

import atexit

from rammer_mlir.errors import UnsupportedError
from rammer_mlir.support.worker_process import WorkerDied, WorkerProcess, module_command

IMPORTER = module_command(f"{__package__}.importer_worker")
"""The command that starts a worker process with torch-mlir's importer."""

_SECONDS = 60.0
"""Number of seconds for a single node after which the importer counts as hung."""

_worker = WorkerProcess(IMPORTER)
atexit.register(_worker.stop)


def import_in_child(model: bytes, worker: WorkerProcess = _worker) -> bytes:
    """Import a serialized model of a single node, with static shapes; return MLIR bytecode.

    ``worker`` is the process that imports the model.

    Raises:
        UnsupportedError: with the importer's reason, if the node cannot be imported.
    """
    try:
        reply = worker.request(model, _SECONDS)
    except WorkerDied as error:
        raise UnsupportedError(f"the ONNX importer gave up: {error}") from error
    if not reply.ok:
        raise UnsupportedError(reply.content.decode())
    return reply.content
