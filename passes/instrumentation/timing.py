"""Measures the wall-clock time of each pass, and prints it as a tree or a list."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rammer_mlir.bindings import ir
from rammer_mlir.passes.instrumentation.base import Instrumentation, WatchedPass

_RULE = "===" + "-" * 73 + "==="


@dataclass
class _Entry:
    """A line of a report: a pass, an operation around passes, or another phase.

    Attributes:
        name: the name of the pass, operation or phase.
        seconds: the measured seconds, without those of nested lines.
        inside: the nested lines.
    """

    name: str
    seconds: float = 0.0
    inside: list[_Entry] = field(default_factory=list["_Entry"])

    def total(self) -> float:
        return self.seconds + sum(entry.total() for entry in self.inside)

    def child(self, name: str) -> _Entry:
        """Return the last nested entry if it has this name; else append and return a new one."""
        if not self.inside or self.inside[-1].name != name:
            self.inside.append(_Entry(name))
        return self.inside[-1]

    def leaves(self) -> Iterator[_Entry]:
        if not self.inside:
            yield self
        for entry in self.inside:
            yield from entry.leaves()


class Timing(Instrumentation):
    """Instrumentation that measures the wall-clock seconds of passes and of a tool's other phases.

    The time of a pass includes the verification after it.
    """

    def __init__(self) -> None:
        """Start the clock of the total time that ``report`` prints."""
        self._begin = time.perf_counter()
        self._root = _Entry("root")
        self._start = 0.0

    def before(self, step: WatchedPass, module: ir.Module) -> None:
        """Start the clock of the pass ``step``, which runs next."""
        self._start = time.perf_counter()

    def after(self, step: WatchedPass, module: ir.Module) -> None:
        """Add the seconds since ``before`` to the entry of the pass."""
        entry = self._root
        *operations, leaf = _levels(step.text)
        for operation in operations:
            entry = entry.child(f"'{operation}' Pipeline")
        entry.inside.append(_Entry(leaf, time.perf_counter() - self._start))

    def failed(self, step: WatchedPass, module: ir.Module) -> None:
        """Add the seconds since ``before`` to the entry of the pass that failed."""
        self.after(step, module)

    @contextmanager
    def measure(self, name: str) -> Generator[None]:
        """Return a context manager that reports the seconds of its block as phase ``name``."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._root.inside.append(_Entry(name, time.perf_counter() - start))

    def report(self, *, display: str = "tree", form: str = "text") -> str:
        """Return the seconds of all passes and phases as text.

        Args:
            display: ``tree`` in the order of the pipeline, or ``list`` with one entry per name, the
                slowest first.
            form: ``text`` for a table, or ``json`` for the same entries in JSON.
        """
        whole = time.perf_counter() - self._begin
        entries = _as_list(self._root) if display == "list" else list(_as_tree(self._root, 0))
        rest = max(whole - self._root.total(), 0.0)
        rows = [*entries, (0, "Rest", rest), (0, "Total", whole)]
        if form == "json":
            return _as_json(rows, whole)
        lines = [_line(depth, name, seconds, whole) for depth, name, seconds in rows]
        title = "... Execution time report ...".center(len(_RULE)).rstrip()
        head = [_RULE, title, _RULE, f"  Total Execution Time: {whole:.4f} seconds", ""]
        return "\n".join([*head, "  ----Wall Time----  ----Name----", *lines])


_Row = tuple[int, str, float]


def _levels(text: str) -> list[str]:
    """Return the names of the operations around a pass, outermost first, and then the pass itself.

    ``text`` is the pass in pipeline syntax: ``func.func(cse)`` gives ``["func.func", "cse"]``.
    """
    levels: list[str] = []
    while "(" in text.partition("{")[0]:
        operation, _, rest = text.partition("(")
        levels.append(operation)
        text = rest[: rest.rindex(")")]
    return [*levels, text]


def _as_tree(entry: _Entry, depth: int) -> Iterator[_Row]:
    for inside in entry.inside:
        yield depth, inside.name, inside.total()
        yield from _as_tree(inside, depth + 1)


def _as_list(root: _Entry) -> list[_Row]:
    seconds: dict[str, float] = {}
    for leaf in root.leaves():
        if leaf is not root:
            seconds[leaf.name] = seconds.get(leaf.name, 0.0) + leaf.seconds
    slowest_first = sorted(seconds.items(), key=lambda item: -item[1])
    return [(0, name, spent) for name, spent in slowest_first]


def _as_json(rows: Iterable[_Row], whole: float) -> str:
    entries = [
        {
            "depth": depth,
            "name": name,
            "wall": {"duration": seconds, "percentage": 100 * seconds / whole},
        }
        for depth, name, seconds in rows
    ]
    return json.dumps(entries, indent=1)


def _line(depth: int, name: str, seconds: float, whole: float) -> str:
    return f"  {seconds:8.4f} ({seconds / whole:6.1%})  {'  ' * depth}{name}"
