"""Tests that worker processes compile the same objects as this process, and end with it.

Errors in a worker are reported, and do not disturb other jobs.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

import pytest

from rammer_mlir.benchmarks.models import build
from rammer_mlir.compiler import steps
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options
from rammer_mlir.errors import TargetError
from rammer_mlir.lowering.llvm import object_compiler
from rammer_mlir.lowering.llvm.codegen import emit_object
from rammer_mlir.lowering.llvm.machine import host_machine
from rammer_mlir.lowering.llvm.object_compiler import ObjectCompiler
from rammer_mlir.lowering.llvm.object_messages import CompiledObject, request
from rammer_mlir.support import worker_process
from rammer_mlir.support.worker_process import (
    WorkerDied,
    WorkerProcess,
    can_start_python,
    module_command,
)

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


SLOW = [sys.executable, "-c", "import time; time.sleep(600)"]


def test_stopping_ends_workers_and_cancels_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopping ends a worker in the middle of a job, and cancels the jobs that have not begun."""
    monkeypatch.setattr(object_compiler, "_WORKER", SLOW)
    compiler = ObjectCompiler(MACHINE, 4, workers=1)
    futures = [compiler.submit(text) for text in texts(4)]
    wait_until(lambda: bool(children("time.sleep(600)")))
    begin = time.monotonic()
    compiler.stop()
    with pytest.raises(WorkerDied):
        futures[0].result(timeout=30)
    assert all(future.cancelled() for future in futures[1:])
    assert time.monotonic() - begin < 30
    wait_until(lambda: not children("time.sleep(600)"))


def test_workers_end_with_the_last_reference() -> None:
    compiler = ObjectCompiler(MACHINE, 1, workers=1)
    compiler.submit(texts(1)[0]).result()
    assert children()
    del compiler
    wait_until(lambda: not children())


def test_a_fork_during_a_job_ends() -> None:
    """A process that is forked during a job can exit.

    The child's copies of locks are never released, so that its exit must not wait for them.
    """
    script = (
        "import os, sys, time\n"
        "from rammer_mlir.lowering.llvm import object_compiler as m\n"
        "from rammer_mlir.lowering.llvm.machine import host_machine\n"
        f"m._WORKER = {SLOW!r}\n"
        "compiler = m.ObjectCompiler(host_machine(), 1, workers=1)\n"
        "compiler.submit('')\n"
        "time.sleep(1)\n"
        "child = os.fork()\n"
        "if not child: sys.exit(7)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "compiler.stop()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["7"]


def test_an_error_after_the_rkernels_ends_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise TargetError("not lowered")

    monkeypatch.setattr(object_compiler, "_ENOUGH_JOBS", 0)
    monkeypatch.setattr(object_compiler, "_WORKER", SLOW)
    monkeypatch.setattr(steps, "lower_program", fail)
    with pytest.raises(TargetError, match="not lowered"):
        Compilation.of_model(build("mlp", scale="small"), check_options()).code()
    wait_until(lambda: not children("time.sleep(600)"))


def test_without_a_folder_for_temporary_files(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_file(**_: object) -> None:
        raise FileNotFoundError("no temporary directory")

    monkeypatch.setattr(tempfile, "TemporaryFile", no_file)
    compiler = ObjectCompiler(MACHINE, 1, workers=1)
    assert compiler.submit(texts(1)[0]).result().object == emit_object(texts(1)[0], MACHINE)
    compiler.stop()


def test_workers_leave_out_a_pass_that_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers skip a pass that changes nothing: their objects equal this process's objects."""
    found: list[str] = []
    submit = ObjectCompiler.submit

    def kept(self: ObjectCompiler, text: str) -> Future[CompiledObject]:
        found.append(text)
        return submit(self, text)

    with monkeypatch.context() as patched:
        patched.setattr(ObjectCompiler, "submit", kept)
        for name in ("nas_cell", "attention", "depthwise_net"):
            Compilation.of_model(build(name, scale="small"), check_options()).code()
    assert len(found) > 15 and any("br i1" in text for text in found)
    compiler = ObjectCompiler(MACHINE, len(found), workers=1)
    made = [compiler.submit(text) for text in found]
    assert [each.result().object for each in made] == [emit_object(t, MACHINE) for t in found]
    compiler.stop()


def test_a_host_application_is_not_started_as_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    assert can_start_python()
    for executable in ("", "/usr/bin/paint", "/no/such/prefix/bin/python3"):
        monkeypatch.setattr(sys, "executable", executable)
        assert not can_start_python()


def test_a_program_without_a_main_guard_compiles_in_workers(tmp_path: Path) -> None:
    """A user's program needs no main guard, because workers do not import the program.

    Workers are started from the installed package.
    """
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
    worker = WorkerProcess(module_command("rammer_mlir.lowering.llvm.object_worker"))
    try:
        for wrong in (b"no machine", b"{}\n"):
            reply = worker.request(wrong, 60)
            assert not reply.ok and reply.content.startswith(b"internal error (")
        for text in texts(3):
            reply = worker.request(request(text, MACHINE), 60)
            assert CompiledObject.decode(reply.content).object == emit_object(text, MACHINE)
    finally:
        worker.stop()


def test_an_interrupted_request_leaves_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer to an interrupted request is not given to the next request."""
    worker = WorkerProcess(module_command("rammer_mlir.lowering.llvm.object_worker"))

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(worker_process.select, "select", interrupted)
        with pytest.raises(KeyboardInterrupt):
            worker.request(request(texts(1)[0], MACHINE), 60)
    assert not children()
    text = texts(2)[1]
    reply = worker.request(request(text, MACHINE), 60)
    assert CompiledObject.decode(reply.content).object == emit_object(text, MACHINE)
    worker.close()
    with pytest.raises(WorkerDied, match="closed"):
        worker.request(b"", 60)


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds; fail after 30 seconds."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def children(name: str = "object_worker") -> list[str]:
    """Return the commands of this process's children that contain ``name``."""
    found: list[str] = []
    for task in Path("/proc/self/task").iterdir():
        for child in (task / "children").read_text().split():
            with suppress(OSError):  # it may have ended meanwhile
                command = Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ")
                found += [command] if name in command else []
    return found
