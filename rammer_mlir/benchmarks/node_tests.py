"""The share of ONNX's node tests that give right numbers through the whole compiler.

``python -m rammer_mlir.benchmarks.node_tests [--filter TEXT] [--json OUT] [--processes N]``
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from queue import Empty, Queue

import onnx

import rammer_mlir
from rammer_mlir.benchmarks.node_cases import Array, Result, check, node_tests

_SECONDS = 60
"""After this long a test has failed."""


def run_compiled(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    """Compile a model for one vEU and run it."""
    with rammer_mlir.compile(model, policy="sequential", num_veus=1, cache=False) as executable:
        return executable.run(inputs)


def run_all(only: str = "", processes: int = 2) -> list[Result]:
    """Run every test whose name contains ``only``, spread over a few long-lived processes."""
    pending: Queue[str] = Queue()
    operators = {test.name: test.operators for test in node_tests(only)}
    for name in operators:
        pending.put(name)
    reasons: dict[str, str | None] = {}
    runners = [
        threading.Thread(target=_feed_process, args=(pending, reasons, len(operators)))
        for _ in range(min(processes, len(operators)))
    ]
    for runner in runners:
        runner.start()
    for runner in runners:
        runner.join()
    return [Result(name, kinds, reasons[name]) for name, kinds in operators.items()]


def summary(results: Sequence[Result]) -> str:
    """Return the share that passed and the reasons for the rest, by operator."""
    passed = sum(result.reason is None for result in results)
    lines = [f"node tests: {passed} of {len(results)} pass ({passed / max(len(results), 1):.1%})"]
    failing: dict[str, Counter[str]] = {}
    for result in results:
        if result.reason is not None:
            failing.setdefault("+".join(result.operators), Counter())[result.reason] += 1
    for operators, reasons in sorted(failing.items(), key=lambda item: -item[1].total()):
        lines.append(f"{reasons.total():5d}  {operators}: {reasons.most_common(1)[0][0]}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests and print a summary."""
    parser = argparse.ArgumentParser(prog="node_tests", description=__doc__)
    parser.add_argument("--filter", default="", metavar="TEXT", help="only names with this text")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write why each test fails")
    parser.add_argument("--processes", type=int, default=2, metavar="N")
    options = parser.parse_args(arguments)
    results = run_all(options.filter, options.processes)
    if options.json:
        options.json.write_text(json.dumps({r.name: r.reason for r in results}, indent=1))
    print(summary(results))
    return 0


def _feed_process(pending: Queue[str], reasons: dict[str, str | None], total: int) -> None:
    """Give tests to a process, one at a time; start another when a test ends or hangs it."""
    tester = None
    while True:
        try:
            name = pending.get_nowait()
        except Empty:
            break
        tester = tester or _Tester()
        try:
            reasons[name] = tester.check(name)
        except (TimeoutError, EOFError, OSError) as error:
            late = isinstance(error, TimeoutError)
            reasons[name] = f"not done in {_SECONDS} s" if late else "ends the process"
            tester.stop()
            tester = None
        if len(reasons) % 100 == 0:
            print(f"{len(reasons)} of {total} tests", file=sys.stderr, flush=True)
    if tester is not None:
        tester.stop()


class _Tester:
    """A process that checks tests by name."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        self._connection.recv()

    def check(self, name: str) -> str | None:
        self._connection.send(name)
        if not self._connection.poll(_SECONDS):
            raise TimeoutError
        return self._connection.recv()

    def stop(self) -> None:
        self._connection.close()
        self._process.terminate()
        self._process.join()


def _serve(connection: Connection[str | None, str]) -> None:
    tests = {test.name: test for test in node_tests()}
    connection.send(None)
    while True:
        connection.send(check(tests[connection.recv()], run_compiled).reason)


if __name__ == "__main__":
    sys.exit(main())
