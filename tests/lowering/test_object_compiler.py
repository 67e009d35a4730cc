"""Objects that worker processes compile: equal to those that this process compiles."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rammer_mlir.errors import TargetError
from rammer_mlir.lowering.llvm import object_compiler
from rammer_mlir.lowering.llvm.codegen import emit_object
from rammer_mlir.lowering.llvm.machine import host_machine
from rammer_mlir.lowering.llvm.object_compiler import ObjectCompiler
from rammer_mlir.support.worker_process import WorkerProcess, can_start_python

MACHINE = host_machine()


def texts(number: int) -> list[str]:
    """Return the LLVM IR of ``number`` different modules."""
    return [
        f"define i64 @f{n}(i64 %x) {{\n  %y = add i64 %x, {n}\n  ret i64 %y\n}}\n"
        for n in range(number)
    ]


@pytest.fixture(params=[0, 1, 3])
def compiler(request: pytest.FixtureRequest) -> Iterator[ObjectCompiler]:
    made = ObjectCompiler(MACHINE, 12, workers=request.param)
    yield made
    made.stop()


def test_objects_are_those_of_this_process(compiler: ObjectCompiler) -> None:
    futures = [compiler.submit(text) for text in texts(12)]
    compiler.help()
    found = [future.result() for future in futures]
    assert [each.object for each in found] == [emit_object(text, MACHINE) for text in texts(12)]
    assert all(each.seconds > 0 for each in found)


def test_refused_text_is_one_line_and_others_go_on(compiler: ObjectCompiler) -> None:
    broken, fine = compiler.submit("define i64 @f("), compiler.submit(texts(1)[0])
    with pytest.raises(TargetError, match="expected text that LLVM") as error:
        broken.result()
    assert "\n" not in str(error.value)
    assert fine.result().object == emit_object(texts(1)[0], MACHINE)


def test_jobs_of_a_worker_that_dies_are_compiled_here(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(
        object_compiler, "_WORKER", [sys.executable, "-c", "import os; os._exit(9)"]
    )
    compiler = ObjectCompiler(MACHINE, 3, workers=1)
    with caplog.at_level(logging.INFO, logger="rammer_mlir"):
        found = [future.result().object for future in map(compiler.submit, texts(3))]
    compiler.stop()
    assert found == [emit_object(text, MACHINE) for text in texts(3)]
    assert "ended with status 9" in caplog.text


def test_a_worker_that_cannot_start_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_compiler, "_WORKER", ["/no/such/program"])
    compiler = ObjectCompiler(MACHINE, 1, workers=1)
    assert compiler.submit(texts(1)[0]).result().object == emit_object(texts(1)[0], MACHINE)
    compiler.stop()


def test_stopping_ends_workers_and_cancels_jobs() -> None:
    compiler = ObjectCompiler(MACHINE, 1, workers=1)
    compiler.submit(texts(1)[0]).result()
    assert children()
    compiler.stop()
    assert not children()


def test_workers_end_with_the_last_reference() -> None:
    compiler = ObjectCompiler(MACHINE, 1, workers=1)
    compiler.submit(texts(1)[0]).result()
    del compiler
    assert not children()


def test_a_host_application_is_not_started_as_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    assert can_start_python()
    for executable in ("", "/usr/bin/paint"):
        monkeypatch.setattr(sys, "executable", executable)
        assert not can_start_python()


def test_a_program_without_a_main_guard_compiles_in_workers(tmp_path: Path) -> None:
    """Workers are started from the installed package; they do not import the user's program."""
    script = tmp_path / "program.py"
    script.write_text(
        "print('begun')\n"
        "from rammer_mlir.lowering.llvm.machine import host_machine\n"
        "from rammer_mlir.lowering.llvm.object_compiler import ObjectCompiler\n"
        "compiler = ObjectCompiler(host_machine(), 1, workers=1)\n"
        f"print(len(compiler.submit({texts(1)[0]!r}).result().object) > 0)\n"
    )
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["begun", "True"] and not done.stderr


def test_a_worker_answers_requests_in_order_after_an_error() -> None:
    worker = WorkerProcess([sys.executable, "-P", "-m", "rammer_mlir.lowering.llvm.object_worker"])
    try:
        assert not worker.request(b"no machine", 60).ok
        assert not worker.request(b"{}\n", 60).ok
    finally:
        worker.stop()


def children() -> list[str]:
    """Return the commands of this process's children that compile objects."""
    found: list[str] = []
    for task in Path("/proc/self/task").iterdir():
        for child in (task / "children").read_text().split():
            command = Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ")
            if "object_worker" in command:
                found.append(command)
    return found
