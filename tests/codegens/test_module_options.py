"""Tests that code generators and engines get the options that they declare.

Wrong options are refused, and options are a part of cache keys and artifacts.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnx
import pytest

import rammer_mlir
from rammer_mlir.benchmarks.models import build, random_feeds
from rammer_mlir.cli import compile as compile_tool
from rammer_mlir.cli import run as run_tool
from rammer_mlir.codegens import (
    EntryHost,
    ModuleOption,
    OpenEntry,
    Region,
    RegionCode,
    register_codegen,
    register_engine,
)
from rammer_mlir.codegens.iree import compiler as iree_compiler
from rammer_mlir.codegens.onednn import codegen as onednn
from rammer_mlir.compiler.caching.keys import compile_key
from rammer_mlir.compiler.options import check_options
from rammer_mlir.engines.engine import ENGINES
from rammer_mlir.errors import OptionError, TargetError
from rammer_mlir.passes.regions.codegen import CODEGENS
from rammer_mlir.programs.module_options import complete, read_written, written
from rammer_mlir.runtime.executable import Executable
from tests.cli.tools import Tool
from tests.external.states import PackedProducts, Products, check, two_products


@pytest.fixture(scope="module")
def mlp() -> onnx.ModelProto:
    return build("mlp", scale="small")


def compiled(model: Any, offload: str, options: Mapping[str, Any], **given: Any) -> Executable:
    found = rammer_mlir.compile(
        model, offload=offload, offload_choice="always", num_veus=2, cache=False,
        module_options=options, **given,
    )  # fmt: skip
    assert isinstance(found, Executable)
    return found


@dataclass
class Packed(PackedProducts):
    """A code generator of products with two options; ``seen`` has the options of each region."""

    options: ClassVar[tuple[ModuleOption, ...]] = (
        ModuleOption("level", 2, "how much", least=0),
        ModuleOption("is-fast", False, "whether it is"),
    )
    seen: ClassVar[list[Mapping[str, object]]] = []

    def generate(self, region: Region) -> RegionCode:
        self.seen.append(region.options)
        return super().generate(region)


@dataclass
class Engine(Products):
    """An engine of products with two options; ``seen`` has the options of each entry."""

    options: ClassVar[tuple[ModuleOption, ...]] = (
        ModuleOption("way", "plain", "which way", choices=("plain", "other")),
        ModuleOption("share", 0.5, "how much of it"),
    )
    seen: ClassVar[list[Mapping[str, object]]] = []

    def open(self, host: EntryHost) -> OpenEntry:
        self.seen.append(host.options)
        return super().open(host)


@pytest.fixture
def packed() -> Iterator[Packed]:
    codegen = Packed()
    register_codegen(codegen)
    register_engine(Engine())
    Packed.seen.clear()
    Engine.seen.clear()
    yield codegen
    CODEGENS.unregister("packed")
    ENGINES.unregister("products-engine")


def test_a_code_generator_gets_its_own(packed: Packed) -> None:
    for given, wanted in (
        ({}, {"level": 2, "is-fast": False}),
        ({"packed.level": 7}, {"level": 7, "is-fast": False}),
        ({"packed.level": "0", "packed.is-fast": "true"}, {"level": 0, "is-fast": True}),
        ({"packed.is-fast": True}, {"level": 2, "is-fast": True}),
    ):
        Packed.seen.clear()
        with compiled(two_products(), "packed", given) as exe:
            check(exe)
            assert all(module.options == () for module in exe.image.modules)
        assert Packed.seen and all(each == wanted for each in Packed.seen)


def test_options_of_others_are_refused(packed: Packed, mlp: onnx.ModelProto) -> None:
    """An engine's option is refused if all given code generators are known to use other engines.

    A code generator that is not the project's may use any engine, so the option is accepted.
    """
    message = "'openvino.threads': expected 'openvino' in offload, found onednn, iree; add it"
    with pytest.raises(OptionError, match=message):
        compiled(mlp, "onednn,iree", {"openvino.threads": 2})
    with compiled(two_products(), "packed", {"openvino.threads": 2}) as exe:
        check(exe)


def test_names_of_options_are_text(mlp: onnx.ModelProto) -> None:
    given: Any = {3: 4}
    with pytest.raises(OptionError, match=r"expected names as text, such as .*, found 3"):
        compiled(mlp, "onednn", given)


@pytest.mark.parametrize(
    ("name", "default", "message"),
    [
        ("two words", 1, "expected a name of letters, digits, '_' and '-', found 'two words'"),
        (5, 1, "expected a name of letters, digits, '_' and '-', found 5"),
        ("level", None, "'level': expected a text, a number or a bool as default, found None"),
        ("level", [1], r"'level': expected a text, a number or a bool as default, found \[1\]"),
    ],
)
def test_faults_of_declarations(name: Any, default: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        ModuleOption(name, default, "how much")


def test_an_engine_gets_its_own(packed: Packed, tmp_path: Path) -> None:
    """Each entry of an engine gets only this engine's options, also when an artifact is loaded."""
    packed.form, packed.code = "binary", {"engine": "products-engine"}
    given = {"products-engine.way": "other", "packed.level": 3}
    with compiled(two_products(), "packed", given) as exe:
        assert {module.options for module in exe.image.modules} == {(("way", "other"),)}
        check(exe)
        exe.save(tmp_path / "products.rammer")
    with rammer_mlir.load(tmp_path / "products.rammer") as loaded:
        assert isinstance(loaded, Executable)
        check(loaded)
    assert len(Engine.seen) == 4
    assert all(each == {"way": "other", "share": 0.5} for each in Engine.seen)


def test_a_value_that_an_engine_does_not_take_any_more(
    packed: Packed, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed.form, packed.code = "binary", {"engine": "products-engine"}
    with compiled(two_products(), "packed", {"products-engine.way": "other"}) as exe:
        monkeypatch.setattr(Engine, "options", (ModuleOption("way", 1, "which way"),))
        with pytest.raises(TargetError, match="options that engine 'products-engine' takes, found"):
            exe.prepare()


WRONG = {
    "unknown": ({"openvino.speed": 1}, r"unknown option 'openvino.speed', expected one of .*open"),
    "owner": (
        {"nobody.threads": 1},
        "unknown option 'nobody.threads', expected one of iree.sec",
    ),
    "no owner": ({"threads": 1}, "unknown option 'threads', expected one of "),
    "kind": ({"onednn.threads": "two"}, "'onednn.threads': expected an integer of at least 1"),
    "least": ({"onednn.threads": 0}, "an integer of at least 1 and at most 1024, found 0$"),
    "most": ({"openvino.threads": 1025}, "of at least 1 and at most 1024, or all, found 1025$"),
    "far more": ({"onednn.threads": 10**20}, "and at most 1024, found 1" + "0" * 20 + "$"),
    "fraction": (
        {"openvino.threads": 1.5},
        r"an integer of at least 1 and at most 1024, or all, found 1\.5",
    ),
    "choice": ({"openvino.precision": "f8"}, "expected one of f32, bf16, f16, found 'f8'"),
    "seconds": ({"iree.seconds": "-1"}, "expected a finite number of at least 1, found '-1'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_options(case: str) -> None:
    given, message = WRONG[case]
    with pytest.raises(OptionError, match=f"^module_options: .*{message}") as found:
        check_options(offload="onednn", module_options=given)
    assert "\n" not in str(found.value)


def test_where_there_is_nothing_to_tell() -> None:
    with pytest.raises(OptionError, match="module_options: expected code generators in offload"):
        check_options(module_options={"onednn.threads": 2})
    with pytest.raises(OptionError, match="module_options: expected a mapping from names"):
        check_options(offload="onednn", module_options=3)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="module_options: expected the CPU as target"):
        check_options("nvvm", module_options={"onednn.threads": 2})


def test_options_are_in_the_key_of_the_cache(mlp: onnx.ModelProto) -> None:
    def key(**given: Any) -> str | None:
        options = check_options(offload="onednn", module_options=given)
        return compile_key(mlp.SerializeToString(), options, None)

    found = [key(), key(**{"onednn.threads": 2}), key(**{"onednn.threads": 3})]
    assert len(set(found)) == 3 and None not in found
    assert key(**{"onednn.threads": "2"}) == found[1], "text and number are one value"


def test_values_as_one_word() -> None:
    given = {"iree.flags": "--a=1,2 --b={3} 'c' & \"d\"", "openvino.threads": "2", "n.empty": ""}
    assert read_written(written(given)) == given
    assert not set(written(given)) & set(" ,{}'\"")
    assert complete((ModuleOption("empty", "x", ""),), {"empty": ""}) == {"empty": ""}


NAMES = {
    "openvino": ({"openvino.threads": 2}, 2e-5),
    "onnxruntime": ({"onnxruntime.threads": 2, "onnxruntime.optimization": "none"}, 2e-5),
    "onednn": ({"onednn.threads": 2, "onednn.math": "any"}, 5e-2),
    "iree": ({"iree.flags": "--iree-llvmcpu-enable-ukernels=none", "iree.seconds": 90}, 2e-5),
}


@pytest.mark.parametrize("offload", NAMES)
def test_numbers(offload: str, mlp: onnx.ModelProto, tmp_path: Path) -> None:
    given, tolerance = NAMES[offload]
    feeds = random_feeds(mlp, 0)
    with rammer_mlir.compile(mlp, num_veus=2, cache=False) as plain:
        wanted = plain.run(feeds)
    with compiled(mlp, offload, given) as exe:
        assert exe.image.modules
        exe.save(tmp_path / "mlp.rammer")
        found = exe.run(feeds)
        with rammer_mlir.load(tmp_path / "mlp.rammer") as loaded:
            again: dict[str, Any] = loaded.run(feeds)
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(again[name], value, rtol=tolerance, atol=tolerance)


def test_the_library_is_told_how_to_round(
    mlp: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library gets the number of the math mode that the option ``onednn.math`` names.

    The library refuses all regions if it does not know the number, as in this test.
    """
    monkeypatch.setitem(onednn.MATH, "tf32", 99)
    with compiled(mlp, "onednn", {"onednn.math": "tf32"}) as exe:
        assert exe.image.modules == ()
    assert onednn.code_for({"threads": 1, "math": "strict"}).settings == ""


def test_flags_of_iree(mlp: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []
    run = subprocess.run

    def spied(command: list[str], **options: Any) -> Any:
        commands.append([*command, str(options["timeout"])])
        return run(command, **options)

    monkeypatch.setattr(iree_compiler.subprocess, "run", spied)
    with pytest.raises(TargetError, match=r"iree\.flags that iree-compile takes, found .--no-"):
        compiled(mlp, "iree", {"iree.flags": "--no-such-flag --other", "iree.seconds": 77})
    assert {"--no-such-flag", "--other", "77.0"} <= set(commands[0])


def test_the_tools(
    mlp: onnx.ModelProto, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compiling, running = Tool(compile_tool.main, capsys), Tool(run_tool.main, capsys)
    onnx.save(mlp, tmp_path / "mlp.onnx")
    given = [tmp_path / "mlp.onnx", "-o", tmp_path / "m.rammer", "--offload", "onnxruntime"]
    given += ["--offload-choice", "always", "--no-cache", "--module-option"]
    compiling.succeed(*given, "onnxruntime.threads=2")
    assert ", threads=2\n" in running.succeed(tmp_path / "m.rammer", "--modules")
    listed = compiling.succeed("--list-codegens")
    assert (
        "  onnxruntime.threads " in listed
        and "integer of at least 1 and at most 1024, or all; default: 1" in listed
    )
    for wrong, message in (
        (["threads"], "--module-option 'threads': expected NAME.OPTION=VALUE"),
        (["a.b=1", "--module-option", "a.b=2"], "--module-option 'a.b=2': 'a.b' has a value; give"),
        (["onnxruntime.threads=0"], "'onnxruntime.threads': expected an integer of at least 1"),
    ):
        assert message in compiling.fail(*given, *wrong)
    message = running.fail(tmp_path / "m.rammer", "--module-option", "onnxruntime.threads=2")
    assert "holds a finished schedule" in message
