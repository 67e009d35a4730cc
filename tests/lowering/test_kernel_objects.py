"""Tests that programs may compile each rKernel to an object of its own.

The results are those of a single object, other programs reuse the objects, and errors are reported.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from rammer_mlir import dialects
from rammer_mlir.benchmarks.models import build
from rammer_mlir.bindings import ir
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options
from rammer_mlir.compiler.shared_code import KnownObjects
from rammer_mlir.errors import TargetError
from rammer_mlir.frontends.onnx import import_model
from rammer_mlir.lowering.cpu.kernel_objects import KernelObjects
from rammer_mlir.lowering.cpu.separate_kernels import SeparateKernel, take_kernels
from rammer_mlir.lowering.llvm import object_compiler
from rammer_mlir.lowering.llvm.jit import load_object
from rammer_mlir.lowering.llvm.machine import host_machine
from rammer_mlir.passes.base import OperationError
from rammer_mlir.runtime.feeds import random_feeds
from tests.lowering.kernel_harness import kernel_of

SCALE = """
func.func private @{name}(%id: index, %x: memref<8xf32>, %y: memref<8xf32>) {{
  %c = memref.get_global @{constant} : memref<8xf32>
  linalg.generic {{
    indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
    iterator_types = ["parallel"]
  }} ins(%x, %c : memref<8xf32>, memref<8xf32>) outs(%y : memref<8xf32>) {{
  ^bb0(%a: f32, %b: f32, %old: f32):
    %p = arith.{operation} %a, %b : f32
    linalg.yield %p : f32
  }}
  return
}}
memref.global "private" constant @{constant} : memref<8xf32> = dense<{value}>
"""


class Store:
    """A store of rKernels' objects in memory, in place of the compile cache.

    It records the identities that are looked up, and counts those that it has.
    """

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.hits = 0

    def find(self, identities: Sequence[str]) -> Mapping[str, bytes]:
        self.asked += identities
        found = {each: self.objects[each] for each in identities if each in self.objects}
        self.hits += len(found)
        return found

    def keep(self, objects: Mapping[str, bytes], seconds: float) -> None:
        assert seconds > 0
        self.objects |= objects


def scale(name: str = "k", constant: str = "c", operation: str = "mulf", value: str = "2.0") -> str:
    return SCALE.format(name=name, constant=constant, operation=operation, value=value)


def taken(*sources: str, context: ir.Context) -> list[SeparateKernel]:
    dialects.register(context)
    module = ir.Module.parse("\n".join(sources), context)
    names = {"k", "other", "third", "fourth", "caller"}
    return take_kernels(module, names, host_machine())


@pytest.mark.parametrize(
    "name", ["attention", "depthwise_net", "integer_ops", "lstm_bidirectional"]
)
@pytest.mark.parametrize("num_veus", [1, 3])
def test_the_same_numbers_as_of_one_object(name: str, num_veus: int) -> None:
    imported = import_model(build(name, scale="small"))
    options = check_options("cpu", num_veus=num_veus)

    def compilation() -> Compilation:
        return Compilation.of_import(imported, options, time.perf_counter())

    whole = compilation()
    whole.run_to("object")
    separate = compilation()
    assert whole.code().objects == ()
    assert len(separate.code().objects) > 1
    with whole.executable() as expected, separate.executable() as found:
        feeds = random_feeds(expected.signature, seed=3)
        outputs = found.run(feeds)
        for output, array in expected.run(feeds).items():
            np.testing.assert_array_equal(outputs[output], array)


def layers(*nodes: str) -> onnx.ModelProto:
    """Return a model that applies ``nodes`` in order to 16x64 values; products share one weight."""
    weights = np.random.default_rng(5).standard_normal((64, 64)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node(kind, [f"v{n}", *(["w"] if kind == "MatMul" else [])], [f"v{n + 1}"])
            for n, kind in enumerate(nodes)
        ],
        "layers",
        [helper.make_tensor_value_info("v0", TensorProto.FLOAT, [16, 64])],
        [helper.make_tensor_value_info(f"v{len(nodes)}", TensorProto.FLOAT, [16, 64])],
        [numpy_helper.from_array(weights, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def test_programs_share_rkernels() -> None:
    """A model reuses the rKernel of an equal layer of an earlier model, and gives right results."""
    store = Store()
    found: list[tuple[int, int]] = []
    for model in (layers("MatMul", "Relu"), layers("MatMul", "Relu", "Softmax", "MatMul", "Relu")):
        asked, hits = len(store.asked), store.hits
        compilation = Compilation.of_model(model, check_options(num_veus=2))
        compilation.use_known(KnownObjects(rkernels=store))
        with compilation.executable() as executable:
            feeds = random_feeds(executable.signature, seed=1)
            (output,) = executable.run(feeds).values()
        session = onnxruntime.InferenceSession(model.SerializeToString())
        expected = np.asarray(session.run(None, feeds)[0])
        np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-5)
        found.append((len(store.asked) - asked, store.hits - hits))
    assert found == [(1, 0), (2, 1)]


def test_equal_rkernels_have_one_symbol() -> None:
    context = ir.Context()
    first, second = taken(scale(), scale("other", "d"), context=context)
    assert (first.name, second.name) == ("k", "other")
    assert first.identity == second.identity
    assert first.symbol == second.symbol


def test_any_difference_is_another_rkernel() -> None:
    context = ir.Context()
    sources = (scale(), scale("other", "d", "addf"), scale("third", "e", value="3.0"))
    kernels = taken(*sources, context=context)
    module = ir.Module.parse(scale(), context)
    kernels += take_kernels(module, {"k"}, replace(host_machine(), registers=8))
    assert len({kernel.identity for kernel in kernels}) == 4


def test_objects_are_linked_by_their_symbols() -> None:
    kernels = taken(scale(), scale("other", "d", "addf"), context=ir.Context())
    objects = KernelObjects(host_machine(), None)
    objects.begin(kernels)
    library = load_object(*objects.collect())
    x, y = np.arange(8, dtype=np.float32), np.empty(8, np.float32)
    for kernel, expected in zip(kernels, (x * 2, x + 2), strict=True):
        kernel_of(library, kernel.symbol)(0, x, y)
        np.testing.assert_array_equal(y, expected)


def test_a_call_of_another_function_keeps_an_rkernel_where_it_is() -> None:
    caller = """
    llvm.func @elsewhere(i64)
    func.func private @caller(%id: index, %x: memref<8xf32>) {
      %n = arith.index_cast %id : index to i64
      llvm.call @elsewhere(%n) : (i64) -> ()
      return
    }
    """
    found = taken(scale(), caller, context=ir.Context())
    assert [kernel.name for kernel in found] == ["k"]


def test_an_object_that_llvm_refuses_ends_the_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> bytes:
        raise TargetError("no object")

    monkeypatch.setattr(object_compiler, "emit_object", refuse)
    compilation = Compilation.of_model(build("mlp", scale="small"), check_options())
    with pytest.raises(TargetError, match="no object"):
        compilation.code()


def test_no_thread_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> str:
        raise OperationError(ir.Module.parse("").operation, "not lowered")

    with ir.Context(), ir.Location.unknown():
        monkeypatch.setattr(SeparateKernel, "llvm_ir", refuse)
        compilation = Compilation.of_model(build("mlp", scale="small"), check_options())
        with pytest.raises(OperationError, match="not lowered"):
            compilation.code()
    monkeypatch.undo()
    Compilation.of_model(build("mlp", scale="small"), check_options()).code()
    for thread in threading.enumerate():
        if thread.name.startswith("rammer-objects"):
            thread.join(timeout=10)
            assert not thread.is_alive()
