"""External rTasks with wrong boxes or missing waits are refused by verifiers or by checked runs."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import rammer_mlir
from rammer_mlir import dialects
from rammer_mlir.bindings import ir
from rammer_mlir.checker import verify
from rammer_mlir.codegens import Box
from rammer_mlir.errors import OffloadWarning, RammerError
from rammer_mlir.extend import OfferedOperator, external_rkernel
from rammer_mlir.passes.manager import run_pipeline
from rammer_mlir.passes.tiling.providers import KERNEL_PROVIDERS
from tests.checker.files import cpu_table, read_members, write_members
from tests.external.providers import COLUMNS, ROWS, relu

CODE = """
#include <stdint.h>
int32_t relu_of_rows(int64_t rtask, const float *x, float *y) {
  for (int i = 0; i < 64; i++) y[64 * rtask + i] = x[64 * rtask + i] > 0 ? x[64 * rtask + i] : 0;
  %s
  return 0;
}"""

ROW: Box = [("d0", 1), (0, COLUMNS)]


class Relus:
    """A provider of Relu by rows, with the boxes and the C fault that a test chooses."""

    name: ClassVar[str] = "relus"

    def __init__(self, reads: Box = ROW, writes: Box = ROW, fault: str = "") -> None:
        self.reads, self.writes, self.code = reads, writes, CODE % fault

    def offer(self, operator: OfferedOperator) -> Sequence[ir.Module]:
        kind = ir.Type.parse(f"tensor<{ROWS}x{COLUMNS}xf32>")
        if operator.inputs != (kind,) or operator.outputs != (kind,):
            return []
        return [
            external_rkernel(
                operator, self.code, "relu_of_rows", num_rtasks=ROWS,
                reads={0: self.reads}, writes={0: self.writes}, operations=64, num_bytes=512,
            )
        ]  # fmt: skip


def compiled(relus: Relus) -> None:
    """Compile a Relu with the offered code, and with ``offload_check``."""
    KERNEL_PROVIDERS.register("relus", relus)
    try:
        rammer_mlir.compile(relu(), rkernels="relus", offload_check=True, num_veus=2, cache=False)
    finally:
        KERNEL_PROVIDERS.unregister("relus")


@pytest.mark.parametrize(
    ("writes", "message"),
    [
        ([("d0", 1), (0, 63)], "every element of argument 1 in one rTask's box"),
        ([("d0", 1), (1, 63)], "every element of argument 1 in one rTask's box"),
        ([("d0", 2), (0, 64)], "every element of argument 1 in one rTask's box"),
        ([("d0 floordiv 2", 1), (0, 64)], "every element of argument 1 in one rTask's box"),
        ([("d0 * 2", 1), (0, 64)], "every element of argument 1 in one rTask's box"),
    ],
    ids=["too small", "shifted", "overlapping", "twice", "every other"],
)
def test_boxes_that_cannot_be(writes: Box, message: str) -> None:
    with pytest.raises(RammerError, match=message) as found:
        compiled(Relus(writes=writes))
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    ("relus", "message"),
    [
        (Relus(reads=[("d0", 1), (0, 63)]), "rTask 0 to compute argument 1 from its boxes alone"),
        (Relus(reads=[("0", 1), (0, 64)]), "rTask 1 to compute argument 1 from its boxes alone"),
        (Relus(writes=[("23 - d0", 1), (0, 64)]), "rTask 0 to write its box of argument 1 alone"),
        (Relus(fault="y[(64 * rtask + 70) % 1536] = 1;"), "rTask 0 to write its box of argument 1"),
        (Relus(fault="y[64 * rtask + 5] += 0.5f;"), r"within 0.001 of .* a difference of 0\.5"),
        (Relus(fault="y[-1] = 5;"), "rTask 0 to write its .* memory before or after the argument"),
        (Relus(fault="y[24 * 64 + 5] = 5;"), "rTask 0 to write its box of argument 1 alone, found"),
        (Relus(fault="((float *)x)[24 * 64] = 5;"), "rTask 0 to write its box of argument 0 alone"),
        (
            Relus(fault="((float *)x)[64 * rtask] = 5;"),
            "rTask 0 to leave argument 0, an input, un",
        ),
        (Relus(fault="y[64 * rtask] += x[24 * 64 + 9];"), "rTask 0 to compute argument 1 from its"),
        (Relus(fault="if (rtask == 23) return -7;"), "expected status 0 of rTask 23, found -7"),
    ],
    ids=[
        "row cut",
        "another row",
        "permuted",
        "overrun",
        "numbers",
        "before",
        "after",
        "after an input",
        "an input",
        "read after",
        "status",
    ],
)
def test_what_only_a_run_shows(relus: Relus, message: str) -> None:
    with pytest.raises(RammerError, match=f"Relu:y.*external rKernel .*{message}") as found:
        compiled(relus)
    assert "\n" not in str(found.value)


def test_right_boxes_are_accepted() -> None:
    compiled(Relus())
    compiled(Relus(reads=[(0, ROWS), (0, COLUMNS)]))  # more than it reads: fewer rTasks may overlap


ALONE = """
"rtask.module"() {sym_name = "code", form = "c", code = "#include <stdint.h>\\0A\
int32_t copy(int64_t t, const float *x, float *y) { y[t] = x[t]; return 0; }"} : () -> ()
func.func private @copy(index, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
rtask.kernel @copy rtasks(4) operations(1) bytes(8) attributes {external = {module = @code, symbol = "copy"}} {
  reads 0[d0 +: 1]
  writes 1[d0 +: 1]
}
func.func @main(%x: tensor<4xf32> {rtask.name = "x"}) -> (tensor<4xf32> {rtask.name = "y"}) {
  %y = rtask.operator "mine" @copy(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}"""  # noqa: E501
"""A module of the stage `tasks` whose only rKernel is external."""


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        ("tasks", "expected rKernels of the compiler .*, found none; .* not checked: '@copy_b'"),
        ("buffers", "expected a module of the stage tasks or an earlier one, found .* '@copy_b'"),
    ],
)
def test_rkernels_that_cannot_be_checked_are_named(stage: str, message: str) -> None:
    context = ir.Context()
    dialects.register(context)
    module = dialects.parse(ALONE, context)
    if stage == "buffers":
        run_pipeline(module, "builtin.module(rtask-bufferize)")
    with pytest.warns(OffloadWarning, match=f"offload_check: {message}"):
        rammer_mlir.compile(module, offload_check=True, num_veus=2, cache=False).close()


def test_checked_rkernels_give_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled(Relus())


def layers() -> onnx.ModelProto:
    """Return two branches of two products each, of 8 rows, that are added."""
    model = parser.parse_model("""<ir_version: 10, opset_import: ["": 20]>
      g (float[8,64] x) => (float[8,16] y) {
        a = MatMul(x, u)  b = Relu(a)  c = MatMul(b, v)
        d = MatMul(x, w)  e = Tanh(d)  f = MatMul(e, z)  y = Add(c, f) }""")
    rng = np.random.default_rng(0)
    for name, shape in {"u": (64, 32), "v": (32, 16), "w": (64, 24), "z": (24, 16)}.items():
        values = rng.standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(values, name))
    return model


def offloaded(**options: Any) -> rammer_mlir.Executable:
    given: dict[str, Any] = {"offload": "products", "offload_choice": "always", "num_veus": 2}
    found = rammer_mlir.compile(layers(), **given, **options, cache=False)
    assert isinstance(found, rammer_mlir.Executable)
    return found


@pytest.mark.parametrize("choice", ["always", "cost"])
def test_regions_of_the_example_pass(choice: str, products: Any) -> None:
    rammer_mlir.compile(
        layers(), offload="products", offload_choice=choice, offload_check=True, cache=False
    )


def test_a_region_that_reads_too_much_is_refused(products: Any) -> None:
    generate = products.generate

    def narrow(region: Any) -> Any:
        code = generate(region)
        code.reads[next(iter(code.reads))][1] = (0, 8)
        return code

    products.generate = narrow
    with pytest.raises(RammerError, match=r"rKernel '@products_.* from its boxes alone"):
        offloaded(offload_check=True)


@pytest.mark.parametrize("policy", ["wavefront", "list"])
def test_no_wait_beside_an_external_rtask_can_be_left_out(
    policy: str, products: Any, tmp_path: Path
) -> None:
    """A schedule is refused if an external rTask lacks a wait, or waits for fewer steps."""
    path = tmp_path / "layers.rammer"
    with offloaded(policy=policy) as exe:
        exe.save(path)
    verify(path)
    members = read_members(path)
    mutants = 0
    for mutant in _without_waits(json.loads(members["program.json"])):
        changed = {"program.json": json.dumps(mutant).encode(), **cpu_table(mutant)}
        write_members(path, members | changed)
        with pytest.raises(RammerError) as found:
            verify(path)
        assert "\n" not in str(found.value)
        mutants += 1
    assert mutants >= 2


def _without_waits(program: Any) -> Iterator[Any]:
    """Yield mutants of a program: each lacks one wait of an external rTask, or waits one step less.

    ``program`` and the mutants are contents of ``program.json``.
    """
    foreign = [n for n, each in enumerate(program["kernels"]) if "_x0" in json.dumps(each)]
    external = {n for n, each in enumerate(program["operators"]) if each[1] in foreign}
    assert external
    for veu, records in enumerate(program["launches"][0]):
        for at, record in enumerate(records[:-1]):
            if isinstance(record[0], list) and records[at + 1][0] in external:
                for which, (_, steps) in enumerate(record):
                    for weaker in (0, steps - 1):
                        mutant = json.loads(json.dumps(program))
                        waits = mutant["launches"][0][veu][at]
                        if weaker:
                            waits[which][1] = weaker
                        else:
                            del waits[which]
                        yield mutant
