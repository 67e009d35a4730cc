"""Start contenders on a benchmark model, each in its own process."""

from __future__ import annotations

import tempfile
from collections.abc import Container, Mapping
from contextlib import ExitStack
from pathlib import Path

from rammer_mlir.benchmarks.bench import Request, write_model
from rammer_mlir.benchmarks.child import Failure, in_child
from rammer_mlir.benchmarks.contender_process import Lane
from rammer_mlir.benchmarks.contenders.protocol import Open
from rammer_mlir.benchmarks.lanes import Entrant, open_lanes
from rammer_mlir.errors import TargetError


def open_model_lanes(
    stack: ExitStack,
    request: Request,
    opens: Mapping[str, tuple[Open, int]],
    needed: Container[str],
    *,
    timeout: float,
    patience: float,
) -> tuple[dict[str, Lane], list[str]]:
    """Write a model to a temporary file, and start contenders on it, one after the other.

    Args:
        stack: ends the processes, and then deletes the file, when it is closed.
        request: the model and its sizes.
        opens: for each contender by name, a function that loads a model into it, and the number of
            the contender's threads.
        needed: names of the contenders that must be able to run.
        timeout: seconds within which the model must be written, and a contender in ``needed`` must
            be ready to run.
        patience: seconds within which any other contender must be ready to run.

    Returns:
        The processes by contender name, and a line with the reason for each missing contender.

    Raises:
        TargetError: if the model cannot be built, or a ``needed`` contender cannot load it.
    """
    path = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rammer-"))) / "model.onnx"
    written = in_child(write_model, (request, path), timeout)
    if isinstance(written, Failure):
        raise TargetError(written.message)
    entrants = [Entrant(name, opener, path, threads) for name, (opener, threads) in opens.items()]
    return open_lanes(stack, entrants, written[0], needed, timeout=timeout, patience=patience)
