"""Tests that code generators get right regions, and that wrong code for a region is refused."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import numpy_helper, parser

import rammer_mlir
from rammer_mlir.benchmarks.models import build
from rammer_mlir.bindings import ir
from rammer_mlir.codegens import (
    CompositePattern,
    Device,
    Layouts,
    Limits,
    Reading,
    Region,
    RegionCode,
    RegionFacts,
    Requirement,
    constant,
    op,
    register_codegen,
    wildcard,
)
from rammer_mlir.errors import (
    FallbackWarning,
    MissingPackageError,
    OffloadWarning,
    OptionError,
    PassError,
    RammerError,
    TargetError,
)
from rammer_mlir.lowering.llvm.codegen import emit_object
from rammer_mlir.lowering.llvm.machine import host_machine
from rammer_mlir.passes import rtask_insert_copies
from rammer_mlir.passes.fusion.placement import Placement, place
from rammer_mlir.passes.regions.codegen import CODEGENS
from rammer_mlir.programs.json_graph import Graph, GraphNode, GraphTensor
from rammer_mlir.programs.module_options import ModuleOption
from rammer_mlir.runtime.executable import Executable

MISALIGNED = 5

PRODUCT = """
#include <stdint.h>
float scaled(float);
int32_t {name}(int64_t row, const float *x, const float *w, float *y) {{
  if (((uintptr_t)x | (uintptr_t)w | (uintptr_t)y) % {alignment}) return 5;
  for (int j = 0; j < {columns}; j++) {{
    float sum = 0;
    for (int k = 0; k < {sums}; k++) sum += x[row * {sums} + k] * w[k * {columns} + j];
    y[row * {columns} + j] = scaled(sum);
  }}
  return 0;
}}"""

SCALED = "define float @scaled(float %x) {\n  %y = fmul float %x, 2.0\n  ret float %y\n}"


class Doubled:
    """A code generator of a product with weights and a multiplication by two after it.

    C code computes the product, and calls an object file that multiplies.
    """

    name: ClassVar[str] = "doubled"

    def __init__(self) -> None:
        self.told: list[str] = []
        self.seen: list[Region] = []
        self.change: dict[str, Any] = {}
        self.lacks: str | None = None
        self.kinds: tuple[str, ...] = ()

    def patterns(self) -> Sequence[CompositePattern]:
        product = op("matmul", wildcard("x"), constant("w"))
        return [CompositePattern("doubled.product", op("mul", product, constant()))]

    def supports(self, reading: Reading) -> bool:
        return reading.kind in self.kinds

    def limits(self) -> Limits:
        return Limits(operations=1)

    def worth(self, facts: RegionFacts, device: Device) -> bool:
        return True

    def missing(self) -> str | None:
        return self.lacks

    def prepare(self, regions: Sequence[Region]) -> None:
        self.told += [region.name for region in regions]

    def generate(self, region: Region) -> RegionCode | None:
        self.seen.append(region)
        if self.kinds:
            return None
        (rows, sums), (_, columns) = (ir.RankedTensorType(kind).shape for kind in region.inputs)
        text = PRODUCT.format(name=region.name, sums=sums, columns=columns, alignment=64)
        code = RegionCode(
            text,
            region.name,
            num_rtasks=rows,
            reads={0: [("d0", 1), (0, sums)]},
            writes={0: [("d0", 1), (0, columns)]},
            objects=(emit_object(SCALED, host_machine()),),
            alignment=64,
        )
        return replace(code, **self.change)


@pytest.fixture
def doubled() -> Iterator[Doubled]:
    """Return the code generator ``Doubled``, registered during the test."""
    made = Doubled()
    register_codegen(made)
    yield made
    CODEGENS.unregister("doubled")


def model_of(body: str, x: str = "6,10", y: str = "6,7") -> onnx.ModelProto:
    text = (
        f'<ir_version: 10, opset_import: ["": 20]> g (float[{x}] x) => (float[{y}] y) {{ {body} }}'
    )
    model = parser.parse_model(text)
    rng = np.random.default_rng(0)
    shapes = {"w": (10, 7), "v": (5, 7), "u": (7, 3), "k": (4, 2, 3, 3), "two": ()}
    for name, shape in shapes.items():
        values = np.full(shape, 2.0) if name == "two" else rng.standard_normal(shape)
        values = np.asarray(values, np.float32)
        model.graph.initializer.append(numpy_helper.from_array(values, name))
    return model


def compiled(model: onnx.ModelProto, **options: Any) -> Executable:
    options = {"offload": "doubled", "offload_choice": "always", **options}
    found = rammer_mlir.compile(model, num_veus=2, cache=False, **options)
    assert isinstance(found, Executable)
    return found


def shifted(array: NDArray[np.generic], offset: int) -> NDArray[np.generic]:
    """Return a copy that begins ``offset`` bytes after a multiple of 64."""
    memory = np.zeros(array.nbytes + 128, np.uint8)
    begin = -memory.ctypes.data % 64 + offset
    found = memory[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    found[...] = array
    return found


ONE = "a = MatMul(x, w)  y = Mul(a, two)"
CHAIN = "a = MatMul(x, w)  b = Mul(a, two)  c = MatMul(b, u)  d = Mul(c, two)  y = Relu(d)"
PARTS = (
    "s, t = Split<num_outputs=2, axis=1>(x)  a = MatMul(s, v)  b = Mul(a, two)"
    "c = MatMul(t, v)  d = Mul(c, two)  y = Concat<axis=1>(b, d)"
)
ROWS = (
    "s, t = Split<num_outputs=2, axis=0>(x)  a = MatMul(s, w)  b = Mul(a, two)"
    "c = MatMul(t, w)  d = Mul(c, two)  y = Concat<axis=0>(b, d)"
)


@pytest.mark.parametrize("offset", [0, 4, 36])
@pytest.mark.parametrize(
    ("body", "columns", "regions"), [(ONE, 7, 1), (CHAIN, 3, 2), (PARTS, 14, 1), (ROWS, 7, 1)]
)
def test_operands_are_aligned(
    body: str, columns: int, regions: int, offset: int, doubled: Doubled
) -> None:
    """Regions get aligned copies of slices and of the caller's arrays; their code checks this."""
    model = model_of(body, y=f"6,{columns}")
    exe = compiled(model)
    assert len(exe.image.modules) == regions
    x = np.random.default_rng(1).standard_normal((6, 10)).astype(np.float32)
    out = shifted(np.zeros((6, columns), np.float32), offset)
    exe.run({"x": shifted(x, offset)}, out={"y": out})
    wanted = rammer_mlir.compile(model, cache=False).run({"x": x})["y"]
    np.testing.assert_allclose(np.asarray(out, np.float32), wanted, rtol=1e-5, atol=1e-5)


def test_copies_of_many_regions_take_one_placement(
    doubled: Doubled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copies of all regions need at most two computations of placement, not one per region."""
    places: list[Placement] = []

    def counted(block: ir.Block) -> Placement:
        places.append(place(block))
        return places[-1]

    monkeypatch.setattr(rtask_insert_copies, "place", counted)
    parts = "".join(f"a{n} = MatMul(t{n}, w)  b{n} = Mul(a{n}, two)" for n in range(6))
    rows, results = (", ".join(f"{name}{n}" for n in range(6)) for name in "tb")
    body = f"{rows} = Split<num_outputs=6, axis=0>(x)  {parts}  y = Concat<axis=0>({results})"
    exe = compiled(model_of(body))
    assert len(places) <= 2
    x = np.random.default_rng(1).standard_normal((6, 10)).astype(np.float32)
    weights = numpy_helper.to_array(model_of(body).graph.initializer[0])
    np.testing.assert_allclose(exe.run({"x": x})["y"], 2 * x @ weights, rtol=1e-5, atol=1e-5)


def test_without_an_alignment_nothing_is_copied(doubled: Doubled) -> None:
    doubled.change = {"alignment": 1}
    exe = compiled(model_of(ONE))
    assert [kernel.name.startswith("doubled") for kernel in exe.image.program.kernels] == [True]
    out = shifted(np.zeros((6, 7), np.float32), 4)
    with pytest.raises(TargetError, match=f"expected status 0, found {MISALIGNED}"):
        exe.run({"x": np.zeros((6, 10), np.float32)}, out={"y": out})


def test_a_region_has_a_text_of_its_own(doubled: Doubled) -> None:
    compiled(model_of(ONE), target="cpu:x86-64-v3")
    (region,) = doubled.seen
    assert doubled.told == [region.name]
    assert region.target == "cpu:x86-64-v3"
    with ir.Context():
        module = ir.Module.parse(region.text)
        (function,) = module.body.operations
        assert str(function.operation.attributes["sym_name"]) == f'"{region.name}"'
    assert "rtask." not in region.text and "call" not in region.text
    assert "private" not in region.text and "linalg.generic" in region.text


def graph(rows: int = 6, element_type: str = "f32") -> Graph:
    """Return a graph for the region of ``ONE``, with ``rows`` rows of x and the type of y as given.

    The graph is wrong unless x has 6 rows and y is f32.
    """
    x, w = GraphTensor("x", (rows, 10)), GraphTensor("w", (10, 7))
    y = GraphTensor("y", (6, 7), element_type)
    return Graph("product", (x, w), (y,), (), (GraphNode("MatMul", ("x", "w"), ("y",)),))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alignment": 3}, "expected an alignment of 1, 2, 4, 8, 16, 32, 64 bytes, found 3; mend"),
        ({"alignment": 128}, "found 128; mend it, or leave the code generator out"),
        ({"num_rtasks": 0}, "region 'doubled_0': expected 1 to 1048576 rTasks, found 0"),
        ({"num_rtasks": 2.5}, "expected 1 to 1048576 rTasks, found 2.5"),
        ({"num_rtasks": "2"}, "expected 1 to 1048576 rTasks, found '2'"),
        ({"num_rtasks": 10**30}, "expected 1 to 1048576 rTasks, found 1000000"),
        ({"scratch_bytes": 1 << 70}, "expected 0 to 1099511627776 bytes of scratch, found 118"),
        ({"scratch_bytes": -1}, "bytes of scratch, found -1"),
        ({"code": None}, "expected code as text or bytes, found NoneType"),
        (
            {"symbol": "my fn"},
            "expected a symbol of letters, digits and underscores, found 'my fn'",
        ),
        ({"symbol": ""}, "expected a symbol of letters, digits and underscores, found ''"),
        (
            {"form": "graph", "engine": "numpy", "code": graph(rows=20_000).to_json()},
            "expected 'x' of the graph's inputs as 6x10xf32, found 20000x10xf32",
        ),
        (
            {"form": "graph", "engine": "numpy", "code": graph(element_type="i32").to_json()},
            "expected 'y' of the graph's outputs as 6x7xf32, found 6x7xi32",
        ),
        (
            {"form": "graph", "engine": "numpy", "code": replace(graph(), outputs=()).to_json()},
            "expected 1 outputs of the graph, found 0",
        ),
        ({"needs": "x"}, "expected needs as a tuple of Requirement, found 'x'"),
        ({"reads": "all"}, "expected reads: a mapping from numbers to boxes, found 'all'"),
        ({"reads": {7: [("d0", 1), (0, 10)]}}, "reads: numbers from 0 to 1, found 7"),
        ({"writes": {0: "all"}}, "writes: 2 pairs of an offset and a size, found 'all'"),
        ({"writes": {0: [("d0", 1)]}}, "writes: 2 pairs of an offset and a size, found"),
        ({"reads": {0: [("d1 flordiv 2", 1), (0, 10)]}}, "in terms of d0, .* found 'd1 flordiv 2'"),
        ({"reads": {0: [("d0 mod 0", 1), (0, 10)]}}, "in terms of d0, .* found 'd0 mod 0'"),
        ({"reads": {0: [("d0 floordiv -2", 1), (0, 10)]}}, "in terms of d0, .* found 'd0 floordiv"),
        ({"reads": {0: [("d0, d0", 1), (0, 10)]}}, "in terms of d0, .* found 'd0, d0'"),
        (
            {"writes": {0: [("d0 * 0", 1), (0, 7)]}},
            r"\(Mul:y\): code generator 'doubled', region 'doubled_0': expected a valid rKernel, "
            r"found .* every element of argument 2 in one rTask's box, got element \[0, 0\] in 6",
        ),
        (
            {"num_rtasks": 5},
            r"region 'doubled_0': expected a valid rKernel, found .* got element \[5, 0\] in 0",
        ),
        (
            {"reads": {0: [("d0", 0), (0, 10)]}},
            "region 'doubled_0': expected a valid rKernel, found .* sizes >= 1 for argument 0",
        ),
        (
            {"num_rtasks": 7},
            "expected every rTask to write an element of an output, got none of rTask 6: boxes",
        ),
        ({"efficiency": 0.0}, "expected a finite efficiency above 0, found 0.0; mend it"),
        ({"efficiency": "fast"}, "expected a finite efficiency above 0, found 'fast'"),
        ({"efficiency": float("inf")}, "expected a finite efficiency above 0, found inf"),
        ({"needs": Requirement("numpy")}, "expected needs as a tuple of Requirement, found Req"),
        ({"objects": b"object"}, "expected objects as a tuple of bytes, found bytes"),
        ({"code": ""}, "'doubled_0': expected code as text or bytes, found none"),
        ({"code": "\udcff"}, "expected code as text or bytes, found text that is not UTF-8"),
        ({"alignment": "64"}, "expected an alignment of 1, .* 64 bytes, found '64'"),
        ({"form": "fortran"}, "expected a RegionCode of form c, .* found the form fortran"),
    ],
)
def test_faults_of_code_are_one_line(
    change: dict[str, Any], message: str, doubled: Doubled
) -> None:
    doubled.change = change
    with pytest.raises(PassError, match=message) as found:
        compiled(model_of(ONE))
    assert "\n" not in str(found.value)


def five(_: Region) -> int:
    return 5


def leave(_: Region) -> None:
    sys.exit(3)


ANSWERS: dict[str, tuple[dict[str, Any], str]] = {
    "a pattern alone": (
        {"patterns": lambda: [wildcard("x")]},
        "expected a table of CompositePattern, found Wildcard",
    ),
    "no patterns": ({"patterns": lambda: None}, "expected patterns to return Sequence, found None"),
    "no limits": ({"limits": lambda: None}, "expected limits to return Limits, found None"),
    "a limit as text": (
        {"limits": lambda: Limits(operations="many")},  # pyright: ignore[reportArgumentType]
        "Limits: operations: expected an integer of at least 0, found 'many'",
    ),
    "a negative limit": (
        {"limits": lambda: Limits(bytes=-1)},
        "Limits: bytes: expected an integer of at least 0, found -1",
    ),
    "layouts": ({"layouts": five}, "expected layouts to return Layouts, found 5"),
    "words for a number": ({"min_macs": "many"}, "expected min_macs to be an int, found 'many'"),
    "missing": ({"missing": lambda: True}, "expected missing to return None or str, found True"),
    "the end": ({"generate": leave}, "generate to succeed, found SystemExit: 3"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_of_another_type_are_one_line(
    name: str, doubled: Doubled, monkeypatch: pytest.MonkeyPatch
) -> None:
    change, message = ANSWERS[name]
    for method, value in change.items():
        monkeypatch.setattr(doubled, method, value, raising=False)
    begin = "" if message.startswith("Limits") else "code generator 'doubled': .*"
    with pytest.raises(RammerError, match=begin + message) as found:
        compiled(model_of(ONE))
    assert "\n" not in str(found.value)


@pytest.mark.parametrize("name", ["a,b", "a b", "a.b", "", "1a", "\N{GREEK SMALL LETTER PI}"])
def test_names_of_code_generators(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that would be ambiguous in lists of names or in pass options is refused."""
    monkeypatch.setattr(Doubled, "name", name)
    words = "expected a name of letters, digits, '_' and '-' that begins with a letter, found "
    with pytest.raises(OptionError, match=words + repr(name)):
        register_codegen(Doubled())


def no(*_: object) -> bool:
    return False


def nothing(_: Region) -> None:
    return None


@pytest.mark.parametrize(
    ("member", "message"),
    [
        ({"prepare": 3}, "expected a function 'prepare', found int"),
        ({"missing": "a package"}, "expected a function 'missing', found a package"),
    ],
)
def test_members_that_are_no_functions(
    member: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Doubled()
    for name, value in member.items():
        monkeypatch.setattr(made, name, value, raising=False)
    with pytest.raises(OptionError, match=message):
        register_codegen(made)


@pytest.mark.parametrize("given", [{0: "1"}, {"0": 1}, [0]])
def test_layouts_are_integers(given: Any) -> None:
    with pytest.raises(OptionError, match=r"Layouts: expected dimensions by number, as \{0: 1\}"):
        Layouts(inputs=given)


def test_constants_are_checked_as_they_are() -> None:
    """`offload_check` never changes constants, here a pool's window sizes: code relies on them."""
    body = "a = Conv(x, k)  y = AveragePool<kernel_shape=[3,3], pads=[1,1,1,1]>(a)"
    model = model_of(body, "1,2,8,7", "1,4,6,5")
    for offload in ("numpy", "openvino"):
        exe = compiled(model, offload=offload, offload_check=True)
        assert len(exe.image.modules) == 1


@pytest.mark.parametrize("name", ["mlp", "light_inception_v1", "transformer_encoder", "lstm_tc"])
def test_readings_are_as_patterns_may_ask_for(
    name: str, doubled: Doubled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For each reading that models give, a pattern with its inputs and attributes can be made."""
    seen: list[Reading] = []

    def supports(reading: Reading) -> bool:
        seen.append(reading)
        return False

    monkeypatch.setattr(doubled, "supports", supports)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OffloadWarning)
        compiled(build(name, scale="small"))
    assert len({reading.kind for reading in seen}) > 1
    for reading in seen:
        op(reading.kind, *(wildcard() for _ in reading.inputs), **reading.attributes)


NOT_TAKEN: dict[str, tuple[dict[str, Any], str, str]] = {
    "not supported": ({}, "y = Relu(x)", "expected operations that 'doubled' supports, found none"),
    "beyond a limit": (
        {"limits": lambda: Limits(bytes=1)},
        ONE,
        r"regions within the limits of 'doubled' and worth its code, found none \(supported "
        r"operations: 1\)",
    ),
    "not worth it": ({"worth": no}, ONE, "and worth its code, found none"),
    "too small": ({"min_macs": 10**6}, ONE, "found none .*; see limits, worth and min_macs"),
    "no code": (
        {"generate": nothing},
        ONE,
        r"expected code of 'doubled' for a region, found none \(regions: 1\); the log",
    ),
}


@pytest.mark.parametrize("name", NOT_TAKEN)
def test_why_nothing_is_taken(name: str, doubled: Doubled, monkeypatch: pytest.MonkeyPatch) -> None:
    change, body, message = NOT_TAKEN[name]
    for method, value in change.items():
        monkeypatch.setattr(doubled, method, value, raising=False)
    with pytest.warns(OffloadWarning, match=f"offload: .*{message}.*; the host computes") as shown:
        compiled(model_of(body, y="6,7" if body == ONE else "6,10"))
    assert len(shown) == 1 and "\n" not in str(shown[0].message)


@pytest.mark.parametrize("fallback", ["refuse", "host"])
def test_needs_of_code_without_a_state(fallback: str, doubled: Doubled) -> None:
    """A run in the compiler's process checks that the packages that region code needs exist.

    If a package is missing, the run is refused, or the fallback gives its results after a warning.
    """
    doubled.change = {"needs": (Requirement("no-such-package", "1.0"),)}
    exe = compiled(model_of(ONE), fallback=fallback)
    feeds = {"x": np.ones((6, 10), np.float32)}
    message = "expected the package no-such-package 1.0, found none; install it with"
    if fallback == "refuse":
        with pytest.raises(MissingPackageError, match=message):
            exe.run(feeds)
    else:
        with pytest.warns(FallbackWarning, match=message):
            found = exe.run(feeds)
        wanted = rammer_mlir.compile(model_of(ONE), num_veus=2, cache=False).run(feeds)
        np.testing.assert_array_equal(found["y"], wanted["y"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("threads", "expected options as a sequence of ModuleOption"),
        (("threads",), "expected options as a sequence of ModuleOption"),
        ((ModuleOption("n", 1, "a"), ModuleOption("n", 2, "b")), "expected options of different"),
    ],
)
def test_options_that_are_none(options: Any, message: str) -> None:
    made = Doubled()
    made.options = options  # type: ignore[attr-defined]
    with pytest.raises(OptionError, match=message):
        register_codegen(made)
    assert "doubled" not in CODEGENS.names()


def test_what_is_missing_is_said_at_once(doubled: Doubled) -> None:
    doubled.lacks = "the package acc 2, found none; install it with 'pip install acc'"
    with pytest.raises(TargetError) as found:
        compiled(model_of(ONE))
    assert str(found.value) == f"code generator 'doubled': expected {doubled.lacks}"
    assert doubled.seen == []


def test_efficiency_decides(doubled: Doubled) -> None:
    """With `cost`, code of a high efficiency is taken, code of a low one is not."""
    chosen: list[int] = []
    for efficiency in (1000.0, 0.001):
        doubled.change = {"efficiency": efficiency, "num_rtasks": 1, "reads": {}, "writes": {}}
        model = model_of(ONE, "6000,10", "6000,7")
        chosen.append(len(compiled(model, offload_choice="cost").image.modules))
    assert chosen == [1, 0]


@pytest.mark.parametrize("is_apart", [False, True])
def test_pads_may_stay_outside(is_apart: bool, doubled: Doubled) -> None:
    """With ``pads_apart`` the host pads the image; without it, the region does."""
    doubled.kinds = ("conv2d",)
    setattr(doubled, "pads_apart", is_apart)  # noqa: B010  it is optional
    model = model_of("y = Conv<pads=[1,1,1,1]>(x, k)", "1,2,5,5", "1,4,5,5")
    exe = compiled(model)
    (region,) = doubled.seen
    assert ("tensor.pad" in region.text) is not is_apart
    pads = region.operations[0].readings[0].attributes["pads"]
    assert any(pads) is not is_apart  # pyright: ignore[reportArgumentType]
    x = np.random.default_rng(1).standard_normal((1, 2, 5, 5)).astype(np.float32)
    wanted = rammer_mlir.compile(model, cache=False).run({"x": x})["y"]
    np.testing.assert_allclose(exe.run({"x": x})["y"], wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("least", [None, 0, 1])
def test_operations_without_products(least: int | None, doubled: Doubled) -> None:
    doubled.kinds = ("max_pool",)
    if least is not None:
        setattr(doubled, "min_macs", least)  # noqa: B010  it is optional
    compiled(model_of("y = MaxPool<kernel_shape=[2,2]>(x)", "1,2,5,5", "1,2,4,4"))
    assert len(doubled.seen) == (1 if least == 0 else 0)
