"""Tests that emulated GPU programs give ONNX Runtime's results.

The emulator finds the fault in each program that is broken on purpose.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import rammer_mlir
from rammer_mlir.benchmarks.comparison import compare
from rammer_mlir.benchmarks.contenders.onnx_runtime import OnnxRuntime
from rammer_mlir.benchmarks.models import MODELS, build, random_feeds
from rammer_mlir.bindings import arith, ir
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options
from rammer_mlir.errors import EmulationError, OptionError
from rammer_mlir.lowering.ir_walk import walk

VARIED = ("mlp", "nas_cell", "lstm_bidirectional", "depthwise_net")
"""Models that are run under every policy, on several numbers of vEUs, for several GPUs."""

LONG = (
    "inception_v3",
    "light_densenet121",
    "light_inception_v1",
    "light_inception_v2",
    "light_vgg19",
    "nasnet_a_6_4032",
)
"""Models that are interpreted by ``make test-slow`` only."""


def agree(
    name: str, *, target: str = "nvvm:sm_90", policy: str = "wavefront", num_veus: int = 3
) -> None:
    """Compare two checked runs of a model with ONNX Runtime."""
    model = build(name, scale="small")
    executable = rammer_mlir.compile(
        model, target=target, policy=policy, num_veus=num_veus, emulate=True, check=True
    )
    reference = OnnxRuntime(model)
    for seed in (1, 2):  # step counters go on from the first run
        feeds = random_feeds(model, seed)
        comparison = compare(reference.run(feeds), executable.run(feeds))
        assert comparison.ok, str(comparison)


@pytest.mark.parametrize("target", ["nvvm:sm_90", "rocdl:gfx90a"])
@pytest.mark.parametrize("shape", ["3, 5", "40, 40"])
def test_constants_of_booleans(target: str, shape: str) -> None:
    """Constants of booleans are right; small ones are the kernel's globals, a byte each."""
    model = onnx.parser.parse_model(f"""
        <ir_version: 9, opset_import: ["" : 17]>
        m (float[{shape}] x) => (float[{shape}] y, bool[{shape}] n) {{
            z = Neg (x)
            y = Where (mask, x, z)
            n = Not (mask)
        }}""")
    mask = np.random.default_rng(0).integers(0, 2, [int(n) for n in shape.split(",")]).astype(bool)
    model.graph.initializer.append(numpy_helper.from_array(mask, "mask"))
    x = np.random.default_rng(1).standard_normal(mask.shape).astype(np.float32)
    executable = rammer_mlir.compile(model, target=target, num_veus=2, emulate=True, check=True)
    found = executable.run({"x": x})
    np.testing.assert_array_equal(found["y"], np.where(mask, x, -x))
    np.testing.assert_array_equal(found["n"], ~mask)


_OUT_OF_RANGE = [
    (-1.5, -1, -1, (1 << 32) - 1, (1 << 64) - 1),
    (300.0, 300, 300, 300, 300),
    (3e9, -1 << 31, 3_000_000_000, 3_000_000_000, 3_000_000_000),
    (2.0**33, -1 << 31, 1 << 33, 0, 1 << 33),
    (-(2.0**33), -1 << 31, -1 << 33, 1 << 31, (1 << 64) - (1 << 33)),
    (2.0**63, -1 << 31, -1 << 63, 0, 1 << 63),
    (float("inf"), -1 << 31, -1 << 63, 0, 0),
    (float("-inf"), -1 << 31, -1 << 63, 1 << 31, 1 << 63),
    (float("nan"), -1 << 31, -1 << 63, 1 << 31, 1 << 63),
]
"""Floats, and their casts to int32, int64, uint32 and uint64."""


@pytest.mark.parametrize("target", ["cpu", "nvvm:sm_90", "rocdl:gfx90a"])
@pytest.mark.parametrize("source", ["float", "double", "float16", "bfloat16"])
def test_casts_out_of_range(target: str, source: str) -> None:
    """Casts of floats that the integer type does not have, and of NaN, are the same on all targets.

    Casts to integers of 8 and 16 bits are the low bits of those to int32.
    """
    kinds = ("int32", "int64", "uint32", "uint64", "int8", "uint8", "int16", "uint16")
    casts = "\n".join(
        f"to_{kind} = Cast<to={onnx.TensorProto.DataType.Value(kind.upper())}>(x)" for kind in kinds
    )
    results = ", ".join(f"{kind}[40,9] to_{kind}" for kind in kinds)
    model = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 21]>
        m ({source}[40,9] x) => ({results}) {{ {casts} }}"""
    )
    element = onnx.TensorProto.DataType.Value(source.upper())
    dtype = onnx.helper.tensor_dtype_to_np_dtype(element)
    rows = [row for row in _OUT_OF_RANGE if _is_exact(row[0], dtype)]
    x = np.resize(np.array([row[0] for row in rows]).astype(dtype), (40, 9))
    executable = rammer_mlir.compile(model, target=target, num_veus=2, emulate=target != "cpu")
    found = executable.run({"x": x})
    for place, kind in enumerate(kinds):
        wide, column = (kind, 1 + place) if place < 4 else ("int32", 1)
        numbers = np.array([row[column] for row in rows], wide).astype(kind)
        np.testing.assert_array_equal(found[f"to_{kind}"], np.resize(numbers, (40, 9)), kind)


def _is_exact(number: float, dtype: np.dtype[np.generic]) -> bool:
    """Whether a type of floats has a number; it has infinities and NaN."""
    with np.errstate(over="ignore"):
        return np.array_equal(np.array(number).astype(dtype).astype(float), number, equal_nan=True)


@pytest.mark.parametrize("name", [name for name in MODELS if name not in LONG])
def test_models(name: str) -> None:
    agree(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_long_models(name: str) -> None:
    """Networks of tens of convolutions, interpreted for up to 30 s, agree with ONNX Runtime."""
    agree(name)


@pytest.mark.parametrize("name", VARIED)
@pytest.mark.parametrize("policy", ["wavefront", "sequential"])
@pytest.mark.parametrize("num_veus", [1, 2, 8])
def test_policies_and_veus(name: str, policy: str, num_veus: int) -> None:
    agree(name, policy=policy, num_veus=num_veus)


@pytest.mark.parametrize("name", VARIED)
@pytest.mark.parametrize("target", ["nvvm:sm_80", "rocdl:gfx90a", "rocdl:gfx1100"])
def test_targets(name: str, target: str) -> None:
    agree(name, target=target)


def test_tf32() -> None:
    """With ``tf32``, errors are those of 11 bits of precision; without it, those of f32."""
    model = two_layers()
    feeds = random_feeds(model, 1)
    (expected,) = OnnxRuntime(model).run(feeds).values()
    errors: dict[str, float] = {}
    for target in ("nvvm:sm_80", "nvvm:sm_80+tf32"):
        executable = rammer_mlir.compile(model, target=target, num_veus=2, emulate=True, check=True)
        (found,) = executable.run(feeds).values()
        difference = np.asarray(found, np.float64) - np.asarray(expected, np.float64)
        errors[target] = float(np.abs(difference).max())
    assert errors["nvvm:sm_80"] < 1e-5 < errors["nvvm:sm_80+tf32"] < 3e-2


def two_layers() -> onnx.ModelProto:
    """Return a model of two matrix products of many rTasks, and a softmax."""
    generator = np.random.default_rng(5)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        values = generator.standard_normal(shape).astype(np.float32)
        return onnx.numpy_helper.from_array(values, name)

    nodes = [
        onnx.helper.make_node("MatMul", ["x", "w0"], ["h"], "first"),
        onnx.helper.make_node("Relu", ["h"], ["r"], "rectify"),
        onnx.helper.make_node("MatMul", ["r", "w1"], ["s"], "second"),
        onnx.helper.make_node("Softmax", ["s"], ["y"], "normalize"),
    ]
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes,
        "two_layers",
        [info("x", onnx.TensorProto.FLOAT, [64, 96])],
        [info("y", onnx.TensorProto.FLOAT, [64, 80])],
        [weight("w0", 96, 128), weight("w1", 128, 80)],
    )
    return onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9
    )


def broken(damage: Any, num_veus: int = 4) -> str:
    """Run a program that is broken on purpose; return the message of the fault that it must cause.

    ``damage`` is a function that changes the module of the program's kernel, and returns the number
    of changes. ``num_veus`` is the number of vEUs of the program.
    """
    options = check_options("nvvm:sm_90", policy="wavefront", num_veus=num_veus)
    compilation = Compilation.of_model(two_layers(), options.emulated(checked=True))
    compilation.run_to("target")
    with compilation.module.context, ir.Location.unknown():
        assert damage(compilation.module) > 0
    executable = compilation.executable()
    feeds = random_feeds(two_layers(), 1)
    with pytest.raises(EmulationError) as raised:
        executable.run(feeds)
    return str(raised.value)


def function_of(operation: Any) -> str:
    """Return the name of the function that contains an operation."""
    while operation.name not in ("func.func", "gpu.func"):
        operation = operation.parent.operation
    return ir.StringAttr(operation.attributes["sym_name"]).value


def erase(module: Any, name: str, function: str, callee: str = "") -> int:
    """Erase operations of a module; return how many.

    Args:
        module: the module.
        name: name of the operations.
        function: beginning of the names of the functions that contain the operations.
        callee: for calls, text in the names of the called functions; empty for all operations.
    """
    found = [
        operation
        for operation in walk(module.operation)
        if operation.name == name
        and function_of(operation).startswith(function)
        and (not callee or callee in str(operation.attributes["callee"]))
    ]
    for operation in found:
        operation.erase()
    return len(found)


def test_whole_program_without_damage() -> None:
    model = two_layers()
    feeds = random_feeds(model, 1)
    for policy in ("wavefront", "sequential"):
        for num_veus in (1, 4, 40):
            executable = rammer_mlir.compile(
                model, target="nvvm:sm_90", policy=policy, num_veus=num_veus,
                emulate=True, check=True,
            )  # fmt: skip
            comparison = compare(OnnxRuntime(model).run(feeds), executable.run(feeds))
            assert comparison.ok, str(comparison)


def test_program_without_waits() -> None:
    message = broken(drop_waits, num_veus=8)
    assert message.startswith("kernel 'rammer_program': ")
    assert "data race" in message or "unwritten memory" in message
    assert "the arena" in message


def drop_waits(module: Any) -> int:
    """Let all waits end after one poll, whatever the counter; return the number of waits."""
    count = 0
    for operation in walk(module.operation):
        if operation.name == "scf.condition":
            inside: Any = operation.parent
            if any(o.name == "llvm.load" for o in walk(inside)):
                with ir.InsertionPoint(operation), operation.location:
                    truth = arith.constant(ir.IntegerType.get_signless(1), 0)
                operation.operands[0] = truth
                count += 1
    return count


def test_rkernels_without_block_barriers() -> None:
    def damage(module: Any) -> int:
        return erase(module, "gpu.barrier", "rkernel.")

    message = broken(damage)
    # Which comes first depends on how lanes share the tile.
    assert "unwritten memory: block" in message or "data race: block" in message
    assert any(name in message for name in ("(first)", "(rectify)", "(second)", "(normalize)"))


def test_publication_without_a_block_barrier() -> None:
    def damage(module: Any) -> int:
        return erase(module, "gpu.barrier", "rammer_publish") + erase(
            module, "gpu.barrier", "rammer_program"
        )

    assert "data race" in broken(damage)


def test_program_that_publishes_nothing() -> None:
    def damage(module: Any) -> int:
        return erase(module, "llvm.store", "rammer_publish")

    message = broken(damage)
    assert "hang: no lane can go on" in message
    assert "for the counters at index" in message


def test_what_emulation_cannot_do() -> None:
    model = two_layers()
    with pytest.raises(OptionError, match="expected a GPU to emulate"):
        rammer_mlir.compile(model, target="cpu", emulate=True)
    executable = rammer_mlir.compile(model, target="nvvm:sm_90", num_veus=2, emulate=True)
    with pytest.raises(OptionError, match="found emulated code"):
        executable.save("model.rammer")
    with pytest.raises(OptionError, match="leave --timeline out"):
        executable.timeline("times.json", {})
