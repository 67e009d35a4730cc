"""Tests that the `rtask` dialect can be registered in any context, and verifies modules correctly.

The verifiers are compared with brute force, and take linear time.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rammer_mlir import dialects
from rammer_mlir.bindings import ir
from rammer_mlir.dialects.rtask import OPERATIONS, Access, KernelOp, RTask, RunOp
from rammer_mlir.dialects.rtask.accesses import evaluate
from rammer_mlir.dialects.rtask.coverage import first_miscovered
from rammer_mlir.dialects.rtask.mixed_types import MOST_VALUES

ROOT = Path(__file__).resolve().parent.parent

KERNEL = """
func.func private @k(%id: index, %a: memref<64xf32>, %b: memref<64xf32>) { return }
"rtask.kernel"() {function = @k, num_rtasks = 32 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 2 : i64, bytes = 16 : i64,
  reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}],
  writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0 * 2)>, sizes = array<i64: 2>}]
} : () -> ()
"""


def program(num_runs: int) -> str:
    """Return a module with a vEU that runs ``num_runs`` rTasks and has a barrier after each one.

    The barriers wait for the only rTask of a second vEU.
    """
    run = (
        '"rtask.run"(%a, %b) {{kernel = @k, operator_id = {0} : i64, first = 0 : i64, '
        "count = 1 : i64}} : (memref<64xf32>, memref<64xf32>) -> ()\n"
        '"rtask.barrier"() {{waits = array<i64: 1, 0>}} : () -> ()\n'
    )
    runs = "".join(run.format(number) for number in range(num_runs))
    other = run.partition("\n")[0].format(num_runs)
    return f"""{KERNEL}
    func.func @main(%a: memref<64xf32>, %b: memref<64xf32>) {{
      "rtask.program"() ({{
        "rtask.veu"() ({{ {runs} }}) {{id = 0 : i64}} : () -> ()
        "rtask.veu"() ({{ {other} }}) {{id = 1 : i64}} : () -> ()
      }}) {{device = "cpu", num_veus = 2 : i64}} : () -> ()
      return
    }}"""


def operator(num_operands: int) -> str:
    """Return a module with an rOperator on tensors that all have different types."""
    types = [f"tensor<{number + 1}xf32>" for number in range(num_operands)]
    arguments = ", ".join(f"%a{number}: {kind}" for number, kind in enumerate(types))
    names = ", ".join(f"%a{number}" for number in range(num_operands))
    return f"""
    func.func private @k({arguments}) -> tensor<1xf32> {{ return %a0 : tensor<1xf32> }}
    func.func @main({arguments}) -> tensor<1xf32> {{
      %0 = "rtask.operator"({names}) {{kernels = [@k]}} : ({", ".join(types)}) -> tensor<1xf32>
      return %0 : tensor<1xf32>
    }}"""


def test_registering_twice_and_in_several_contexts() -> None:
    contexts = [ir.Context(), ir.Context()]
    for context in [*contexts, *contexts]:
        dialects.register(context)
    modules = [ir.Module.parse(program(3), context) for context in contexts]
    assert str(modules[0]) == str(modules[1])
    assert all(module.operation.verify() for module in modules)


def test_registering_in_a_context_in_use() -> None:
    with ir.Context() as context, ir.Location.unknown():
        before = ir.Module.parse("func.func @f() { return }")
        dialects.register(context)
        assert before.operation.verify()
        assert "rtask.run" in str(ir.Module.parse(program(1)))


def test_a_multithreaded_context_does_not_deadlock() -> None:
    """Parsing and verifying a module in a multithreaded context does not deadlock.

    MLIR's threads must not wait for Python's lock while their caller holds it.
    """
    functions = "".join(program(2).replace("@main", f"@f{i}").replace(KERNEL, "") for i in range(8))
    code = (
        "from rammer_mlir import dialects\n"
        "from rammer_mlir.bindings import ir\n"
        "context = ir.Context()\n"
        "context.enable_multithreading(True)\n"
        "dialects.register(context)\n"
        f"print(ir.Module.parse({KERNEL + functions!r}, context).operation.verify())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=ROOT
    )
    assert (done.stdout.strip(), done.stderr) == ("True", "")


def test_operations_have_their_classes() -> None:
    assert set(OPERATIONS) == set(RTask.operations)
    assert all(kind.__doc__ for kind in OPERATIONS)
    with ir.Context() as context:
        dialects.register(context)
        module = ir.Module.parse(program(1))
        main, kernel = module.body.operations[2], module.body.operations[1]
        veu = main.regions[0].blocks[0].operations[0].regions[0].blocks[0].operations[0]
        run = veu.regions[0].blocks[0].operations[0]
        assert isinstance(kernel, KernelOp)
        assert kernel.num_rtasks.value == 32
        assert isinstance(run, RunOp)
        assert (run.kernel.value, run.count.value) == ("k", 1)


def test_bytecode_keeps_everything() -> None:
    with ir.Context() as context:
        dialects.register(context)
        module = ir.Module.parse(program(3))
        buffer = io.BytesIO()
        module.operation.write_bytecode(buffer)
        assert str(ir.Module.parse(buffer.getvalue())) == str(module)


def test_operands_may_have_any_types() -> None:
    with ir.Context() as context:
        dialects.register(context)
        module = ir.Module.parse(operator(MOST_VALUES))
        assert module.operation.verify()
        assert "SegmentSizes" not in str(module)
        with pytest.raises(ir.MLIRError, match=f"at most {MOST_VALUES} operands, got"):
            ir.Module.parse(operator(MOST_VALUES + 1))


def test_verifying_a_program_takes_linear_time() -> None:
    def seconds(num_runs: int) -> float:
        module = ir.Module.parse(program(num_runs))
        begin = time.perf_counter()
        assert module.operation.verify()
        return time.perf_counter() - begin

    with ir.Context() as context:
        dialects.register(context)
        seconds(10)
        small, large = seconds(1250), seconds(10_000)
    # Eight times the runs; quadratic would be 64 times the time.
    assert large < 24 * small


boxes = st.integers(1, 3).flatmap(
    lambda rank: st.tuples(
        st.tuples(*[st.integers(1, 4)] * rank),
        st.lists(st.tuples(*[st.tuples(st.integers(0, 4), st.integers(0, 4))] * rank), max_size=6),
    )
)


@settings(max_examples=300, deadline=None)
@given(boxes)
def test_coverage_agrees_with_counting(
    case: tuple[tuple[int, ...], list[tuple[tuple[int, int], ...]]],
) -> None:
    shape, corners = case
    count = np.zeros(shape, np.int64)
    for box in corners:
        count[tuple(slice(begin, end) for begin, end in box)] += 1
    flat = np.array(corners, np.int64).reshape(len(corners), len(shape), 2)
    starts, ends = (np.minimum(flat[..., side], shape) for side in (0, 1))
    wrong = np.argwhere(count != 1)
    expected = None
    if len(wrong):
        element = tuple(int(value) for value in wrong[0])
        expected = element, int(count[element])
    assert first_miscovered(starts, ends, shape) == expected


@pytest.mark.parametrize("tile", [(1, 1), (2, 3), (4, 5), (7, 2)])
def test_tiles_of_any_size_cover(tile: tuple[int, int]) -> None:
    """Tiles of any size cover a shape exactly, since they are clipped at its end.

    Without the last tile, its first element is reported as not covered.
    """
    shape = (7, 5)
    grid = [-(-extent // size) for extent, size in zip(shape, tile, strict=True)]
    text = f"affine_map<(d0) -> (d0 floordiv {grid[1]} * {tile[0]}, d0 mod {grid[1]} * {tile[1]})>"
    with ir.Context():
        access = Access(0, ir.AffineMapAttr(ir.Attribute.parse(text)).value, tile)
        starts, ends = access.boxes(grid[0] * grid[1], shape)
        fewer = access.boxes(grid[0] * grid[1] - 1, shape)
    assert first_miscovered(starts, ends, shape) is None
    last = tuple((count - 1) * size for count, size in zip(grid, tile, strict=True))
    assert first_miscovered(*fewer, shape) == (last, 0)


def test_affine_expressions_agree_with_python() -> None:
    ids = np.arange(20)
    with ir.Context():
        for text, divisor in product(
            ("d0 + {0}", "d0 * {0}", "d0 mod {0}", "d0 floordiv {0}", "d0 ceildiv {0}", "{0}"),
            (1, 3, 7),
        ):
            attribute = ir.Attribute.parse(f"affine_map<(d0) -> ({text.format(divisor)})>")
            expr = ir.AffineMapAttr(attribute).value.results[0]
            names = {"mod": "%", "floordiv": "//", "ceildiv": "/"}
            python = " ".join(names.get(word, word) for word in text.format(divisor).split())
            expected = [int(np.ceil(eval(python, {"d0": number}))) for number in range(20)]
            np.testing.assert_array_equal(evaluate(expr, ids), expected)


NO_MODULE = "rKernels are its functions"
"""The one rule that text cannot break, since a text is always a module."""


def test_operations_need_a_module_around_them() -> None:
    with ir.Context() as context, ir.Location.unknown():
        dialects.register(context)
        kernels = ir.ArrayAttr.get([ir.FlatSymbolRefAttr.get("k")])
        op = ir.Operation.create("rtask.operator", attributes={"kernels": kernels}, ip=False)
        with pytest.raises(ir.MLIRError, match=f"expected a module .*, got none: {NO_MODULE}"):
            op.verify()


def rules() -> list[str]:
    """Return a part of the message of each rule that the dialect's verifiers check.

    It is the longest part that is constant. The messages are found in the source.
    """
    found: dict[str, None] = {}
    for file in sorted((ROOT / "dialects" / "rtask").glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            named = [word.value for word in node.keywords if word.arg == "rule"]
            positional = node.args[-1:] if node.func.id == "Broken" else []
            for rule in [*named, *positional]:
                found.update(dict.fromkeys(constant_parts(rule)))
    return list(found)


def constant_parts(node: ast.expr) -> list[str]:
    """Return a list with the longest constant part of a string literal or f-string.

    The list is empty for other expressions.
    """
    if isinstance(node, ast.Constant):
        return [str(node.value)]
    if isinstance(node, ast.JoinedStr):
        parts = [str(part.value) for part in node.values if isinstance(part, ast.Constant)]
        return [max(parts, key=len)]
    return []


def test_every_diagnostic_has_a_case() -> None:
    cases = (ROOT / "lit_tests" / "dialect" / "invalid.mlir").read_text(encoding="utf-8")
    known = rules()
    assert len(known) > 20
    assert [rule for rule in known if rule not in cases] == [NO_MODULE]


MANY = """
from rammer_mlir import dialects
from rammer_mlir.bindings import ir
kernel = (
    "func.func private @k{n}(%a: tensor<4xf32>) -> tensor<4xf32> {{ "
    "return %a : tensor<4xf32> }}"
)
caller = (
    "func.func private @m{n}(%a: tensor<4xf32>) -> tensor<4xf32> {{ "
    "%r = rtask.operator @k{n}(%a) : (tensor<4xf32>) -> tensor<4xf32> "
    "return %r : tensor<4xf32> }}"
)
text = "\\n".join(form.format(n=n) for n in range(50) for form in (kernel, caller))
context = ir.Context()
dialects.register(context)
context.enable_multithreading(True)
with context:
    dialects.parse(text)
"""


def test_multithreading_that_a_host_turns_on_again_does_not_hang_parsing() -> None:
    done = subprocess.run([sys.executable, "-c", MANY], cwd=ROOT, timeout=60, check=False)
    assert done.returncode == 0
