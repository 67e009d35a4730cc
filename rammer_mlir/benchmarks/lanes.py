"""Start contenders in processes, one after the other, and format failures for a report."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from rammer_mlir.benchmarks.contender_process import Feeds, Lane
from rammer_mlir.benchmarks.contenders.protocol import Open
from rammer_mlir.errors import TargetError


@dataclass(frozen=True)
class Entrant:
    """A contender to start: name, function that loads the model, ONNX file and thread count."""

    name: str
    opener: Open
    model: Path
    threads: int


def open_lanes(
    stack: ExitStack,
    entrants: Iterable[Entrant],
    feeds: Feeds,
    needed: Container[str],
    *,
    timeout: float,
    patience: float,
) -> tuple[dict[str, Lane], list[str]]:
    """Start contenders one after the other, each in its own process.

    Args:
        stack: ends the processes when it is closed.
        entrants: the contenders.
        feeds: inputs of all runs by name.
        needed: names of the contenders that must be able to run.
        timeout: seconds within which a contender in ``needed`` must be ready to run.
        patience: seconds within which any other contender must be ready to run.

    Returns:
        The processes by contender name, and a line with the reason for each missing contender.

    Raises:
        TargetError: if a ``needed`` contender cannot load its model.
    """
    lanes: dict[str, Lane] = {}
    missing: list[str] = []
    for one in entrants:
        is_needed = one.name in needed
        lane = stack.enter_context(Lane(one.name, one.opener, one.model, one.threads, feeds))
        try:
            lane.open(timeout if is_needed else patience)
        except TargetError as error:
            if is_needed:
                raise
            missing.append(str(error))
        else:
            lanes[one.name] = lane
    return lanes, missing


def gaps(results: Iterable[tuple[str, Sequence[str], str | None]]) -> list[str]:
    """Return Markdown lists of missing contenders and of failed models, without empty lists.

    ``results`` has a tuple per model: the model's name, a reason for each missing contender, and
    the model's error message or None.
    """
    missing: list[str] = []
    failed: list[str] = []
    for model, reasons, error in results:
        missing += [f"- {model}: {reason}" for reason in reasons]
        failed += [f"- {model}: {error}"] if error else []
    return ["\n".join(lines) for lines in (missing, failed) if lines]
