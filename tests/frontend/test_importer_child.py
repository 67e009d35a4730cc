"""Tests that aborts, hangs and output of the importer's child process do not affect its parent."""

from __future__ import annotations

import sys
import time

import pytest
from onnx import TensorProto, helper

from rammer_mlir.bindings import ir
from rammer_mlir.errors import UnsupportedError
from rammer_mlir.frontends.onnx.importer_child import IMPORTER, import_in_child
from rammer_mlir.support.worker_messages import HEADER
from rammer_mlir.support.worker_process import WorkerDied, WorkerProcess


def one_node(operator: str, opset: int = 17) -> bytes:
    """Return the serialized model of a node with one input."""
    kinds = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node(operator, ["x"], ["y"])], "g", kinds[:1], kinds[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return model.SerializeToString()


def misbehaving(code: str) -> WorkerProcess:
    """Return a worker whose child reads a request and then executes the Python code ``code``."""
    reading = f"import os, sys, time; sys.stdin.buffer.read({HEADER.size}); "
    return WorkerProcess([sys.executable, "-c", reading + code])


def test_one_child_serves_many_models() -> None:
    worker = WorkerProcess(IMPORTER)
    try:
        for operator in ("Relu", "Exp", "Relu"):
            bytecode = import_in_child(one_node(operator), worker)
            with ir.Context():
                module = ir.Module.parse(bytecode)
                assert "linalg.generic" in str(module)
    finally:
        worker.stop()


def test_what_it_lacks_is_one_line() -> None:
    worker = WorkerProcess(IMPORTER)
    try:
        with pytest.raises(UnsupportedError) as error:
            import_in_child(one_node("NoSuchOperator"), worker)
        assert "\n" not in str(error.value)
        assert import_in_child(one_node("Relu"), worker), "the child survives what it lacks"
    finally:
        worker.stop()


def test_an_abort_is_an_error() -> None:
    worker = misbehaving("os.write(2, b'Assertion `rank > 0` failed.\\n'); os.abort()")
    with pytest.raises(UnsupportedError, match=r"gave up: Assertion `rank > 0` failed\.$"):
        import_in_child(one_node("Relu"), worker)
    with pytest.raises(UnsupportedError, match="gave up"):
        import_in_child(one_node("Relu"), worker)


def test_an_exit_without_a_word_is_an_error() -> None:
    with pytest.raises(UnsupportedError, match="ended with status 3"):
        import_in_child(one_node("Relu"), misbehaving("os._exit(3)"))


def test_a_hang_is_an_error() -> None:
    worker = misbehaving("time.sleep(600)")
    begin = time.monotonic()
    with pytest.raises(WorkerDied, match=r"did not finish in 0\.5 s"):
        worker.request(one_node("Relu"), 0.5)
    assert time.monotonic() - begin < 30


def test_a_large_request_to_a_dead_child_is_an_error() -> None:
    content = bytes(1 << 22)
    with pytest.raises(WorkerDied):
        misbehaving("os._exit(1)").request(content, 30)


def test_chatter_does_not_get_between_the_answers() -> None:
    code = (
        "import os; from rammer_mlir.frontends.onnx import importer_worker; "
        "serve = importer_worker.import_graph; "
        "importer_worker.import_graph = lambda model: (print('chatter', flush=True), "
        "os.write(1, b'more'), serve(model))[2]; importer_worker.main()"
    )
    worker = WorkerProcess([sys.executable, "-c", code])
    try:
        assert import_in_child(one_node("Relu"), worker)
    finally:
        worker.stop()
