"""Tests that the predicted or measured time of the whole program decides which regions are kept."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

import rammer_mlir
from rammer_mlir.benchmarks.models import build, random_feeds
from rammer_mlir.benchmarks.models.builder import GraphBuilder
from rammer_mlir.codegens import Region, RegionCode
from rammer_mlir.compiler import offload_choice
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.offload_search import HOST
from rammer_mlir.compiler.offload_timing import Finals, Measured
from rammer_mlir.compiler.options import check_options
from rammer_mlir.errors import OffloadWarning, OptionError
from rammer_mlir.passes.regions.codegen import CODEGENS
from rammer_mlir.runtime.executable import Executable
from rammer_mlir.scheduling.cost_functions import COST_FUNCTIONS
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import RKernel

pytestmark = pytest.mark.usefixtures("products")

Costs = Callable[[RKernel, Device], float | None]


@contextmanager
def priced(costs: Costs) -> Generator[None]:
    """Register a cost function as ``priced`` while the context is entered."""
    COST_FUNCTIONS.register("priced", costs)
    yield
    COST_FUNCTIONS.unregister("priced")


def foreign_at(seconds: float, *names: str) -> Costs:
    """Return a cost function: an rTask of an external rKernel takes ``seconds``.

    If ``names`` are given, an rTask of an external rKernel of another name takes a second. For
    rKernels of the compiler, the function returns None, so that the device's model decides.
    """

    def cost(kernel: RKernel, device: Device) -> float | None:
        is_foreign = "_x0" in kernel.name
        if is_foreign and names and kernel.name.partition("_x0")[0] not in names:
            return 1.0
        return seconds if is_foreign else None

    return cost


def compiled(model: Any, **options: Any) -> Executable:
    given: dict[str, Any] = {"offload": "products", "num_veus": 2, "cache": False} | options
    found = rammer_mlir.compile(model, **given)
    assert isinstance(found, Executable)
    return found


def nothing(region: Region) -> RegionCode | None:
    """Return no code for a region, so that the host computes the region."""
    return None


def check(exe: Executable, model: Any) -> None:
    """Compare a run with ONNX Runtime."""
    feeds = random_feeds(model, 3)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    found = exe.run(feeds)
    for name, wanted in zip(names, session.run(names, feeds), strict=True):
        np.testing.assert_allclose(found[name], np.asarray(wanted), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["mlp", "transformer_encoder", "light_squeezenet"])
def test_without_regions_it_is_the_hosts_program(name: str) -> None:
    model = build(name, scale="small")
    with priced(foreign_at(1.0)):
        chosen, plain = (
            Compilation.of_model(model, check_options(num_veus=2, costs="priced", offload=offload))
            for offload in ("products", "")
        )
        texts = [each.emit("program") for each in (chosen, plain)]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("policy", ["wavefront", "list", "sequential"])
def test_everything_is_kept_where_it_is_faster(policy: str) -> None:
    model = build("mlp")
    with priced(foreign_at(1e-9)):
        exe = compiled(model, costs="priced", policy=policy)
    found = exe.stats["offload"]
    assert found["kept"] == found["found"] == len(exe.image.modules) == 3
    assert found["chosen_seconds"] == found["all_seconds"] < found["host_seconds"]
    check(exe, model)


def test_no_worse_than_host_and_all() -> None:
    """The chosen regions are faster than none and than all, as predicted.

    Here, a region's code takes almost no time, but its call costs time.
    """
    model = build("transformer_encoder", scale="small")
    with priced(foreign_at(1e-9)):
        exe = compiled(model, costs="priced")
    found = exe.stats["offload"]
    assert 0 < found["kept"] < found["found"]
    assert found["chosen_seconds"] < min(found["host_seconds"], found["all_seconds"])
    check(exe, model)


def test_one_region_of_several(tmp_path: Path) -> None:
    model = build("mlp")
    with priced(foreign_at(1e-9, "products_1")):
        exe = compiled(model, costs="priced")
    found = exe.stats["offload"]
    assert (found["found"], found["kept"], found["untried"]) == (3, 1, 0)
    assert found["chosen_seconds"] < min(found["host_seconds"], found["all_seconds"])
    assert [module.name for module in exe.image.modules] == ["products_1_code"]
    assert "offloaded        1 of 3 regions" in exe.summary
    check(exe, model)
    exe.save(tmp_path / "mlp.rammer")
    loaded = rammer_mlir.load(tmp_path / "mlp.rammer")
    assert loaded.stats["offload"] == found and loaded.summary == exe.summary


def test_the_simulated_program_is_the_compiled_one() -> None:
    """The time simulated for the chosen regions is the compiled program's predicted time."""
    with priced(foreign_at(1e-9, "products_1")):
        options = check_options(num_veus=2, costs="priced", offload="products")
        compilation = Compilation.of_model(build("mlp"), options)
        (timeline,) = compilation.predict()
        stats = compilation.executable().stats["offload"]
    assert timeline.seconds == pytest.approx(stats["chosen_seconds"])


def test_of_two_code_generators_the_faster_one(products: Any) -> None:
    """`cost` takes the faster of two code generators, `always` the one named first."""
    other = copy.copy(products)
    other.__class__ = type("Second", (type(products),), {"name": "second"})
    other.patterns = lambda: [
        type(each)(each.name.replace("products", "second"), each.pattern, each.check)
        for each in type(products).patterns(products)
    ]
    CODEGENS.register("second", other)
    model = build("mlp")
    try:
        with priced(foreign_at(1e-9, "second_0", "second_1", "second_2")):
            chosen = compiled(model, offload="products,second", costs="priced")
            first = compiled(
                model, offload="products,second", costs="priced", offload_choice="always"
            )
    finally:
        CODEGENS.unregister("second")
    assert {module.name.partition("_")[0] for module in chosen.image.modules} == {"second"}
    assert {module.name.partition("_")[0] for module in first.image.modules} == {"products"}
    check(chosen, model)


def test_what_there_was_no_time_for_is_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "rammer_mlir"), priced(foreign_at(1e-9, "products_1")):
        exe = compiled(build("mlp"), costs="priced", offload_seconds=0.0)
    found = exe.stats["offload"]
    assert found["simulations"] == 2 and found["untried"] > 0
    assert f"{found['untried']} not tried" in exe.summary
    assert "found no time for" in caplog.text and "offload_seconds" in caplog.text


def test_code_generators_that_take_nothing_are_named() -> None:
    """A warning names a code generator that supports no operation of the model."""
    words = "expected operations that 'products' supports, found none; the host computes"
    with pytest.warns(OffloadWarning, match=words):
        exe = compiled(build("integer_ops"), offload="products", offload_choice="always")
    assert not exe.image.modules


def test_names_are_one_text() -> None:
    words = r"offload: expected a text of names, separated by commas, found \['products'\]"
    with pytest.raises(OptionError, match=words):
        compiled(build("mlp"), offload=["products"])


def test_time_is_a_number_of_seconds() -> None:
    with pytest.raises(OptionError, match="offload_seconds: expected at least 0, found -1"):
        check_options(offload_seconds=-1.0)
    with pytest.raises(OptionError, match="offload_seconds: expected at least 0, found nan"):
        check_options(offload_seconds=float("nan"))


def test_regions_without_code_are_the_hosts(products: Any) -> None:
    """Without code for its regions, a program has the host's rOperators, also with `always`."""
    products.generate = nothing
    model = build("transformer_encoder", scale="small")
    plain = compiled(model, offload="")
    for choice in ("cost", "always"):
        exe = compiled(model, offload_choice=choice)
        assert exe.image.modules == ()
        assert len(exe.image.program.operators) == len(plain.image.program.operators)
        check(exe, model)


def test_measured_times_decide(
    products: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAMMER_PROFILES", str(tmp_path / "profiles.sqlite"))
    generate = products.generate
    model = build("mlp")

    def slow(region: Region) -> RegionCode:
        code = generate(region)
        busy = "for (volatile int n = 0; n < 300000; n++) {} return 0"
        return replace(code, code=code.code.replace("return 0", busy))

    def wrong_and_fast(region: Region) -> RegionCode:
        code = generate(region)
        begin = code.code.index("{\n") + 1
        return replace(code, code=code.code[:begin] + " return 0; }")

    products.generate = slow
    assert compiled(model, costs="measured").stats["offload"]["kept"] == 0
    products.generate = wrong_and_fast
    exe = compiled(model, costs="measured")
    assert exe.stats["offload"]["kept"] > 0


def test_the_program_is_the_fastest_of_those_that_ran(tmp_path: Path) -> None:
    model = build("mlp", scale="small")
    exe = compiled(model, costs="measured")
    found = exe.stats["offload"]
    limit = min(found["host_measured"], found["all_measured"])
    # All and none, the ends of two descents, and what gains by two thresholds; some are the same.
    assert 2 <= found["measured"] <= 6 and found["chosen_measured"] <= 1.02 * limit
    assert f"({found['measured']} programs)" in exe.summary
    check(exe, model)
    exe.save(tmp_path / "mlp.rammer")
    assert rammer_mlir.load(tmp_path / "mlp.rammer").stats["offload"] == found


@pytest.mark.parametrize("wanted", ["host", "all"])
def test_a_measured_run_outweighs_a_prediction(
    wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program that is faster when measured is chosen, whatever the predicted times."""

    def timed(finals: Finals) -> Measured:
        is_host = wanted == "host"
        seconds = {each: 1.0 if (each == HOST) == is_host else 2.0 for each in finals.choices}
        return Measured(seconds, frozenset(c for c in seconds if c != HOST and not is_host))

    monkeypatch.setattr(Finals, "timed", timed)
    exe = compiled(build("mlp", scale="small"), costs="measured")
    found = exe.stats["offload"]
    assert found["chosen_measured"] == 1.0 and found[f"{wanted}_measured"] == 1.0
    assert len(exe.image.modules) == (0 if wanted == "host" else found["kept"])
    assert (found["kept"] == 0) == (wanted == "host")


def wide_layers() -> Any:
    g = GraphBuilder("layers", seed=1)
    x = g.input("x", [1, 512])
    for width in (512, 480, 448):
        x = g.op("Relu", g.linear(x, width))
    g.output(x, "y")
    return g.finish()


def test_regions_that_save_time_in_a_run(
    products: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Measured runs find the regions that save time, even if no seconds are left for simulations.

    The program has one vEU, so that no run waits for a thread that the system has suspended.
    """
    monkeypatch.setenv("RAMMER_PROFILES", str(tmp_path / "profiles.sqlite"))
    generate = products.generate

    def slow_or_wrong(region: Region) -> RegionCode:
        code = generate(region)
        busy = "for (volatile int n = 0; n < 300000; n++) {} return 0"
        begin = code.code.index("{\n") + 1
        found = code.code.replace("return 0", busy)
        return replace(
            code, code=found if region.name == "products_0" else code.code[:begin] + " return 0; }"
        )

    products.generate = slow_or_wrong
    # The simulations get no time, the measurements all they need.
    has_time = iter((False, True))

    def timer(_: float) -> Callable[[], bool]:
        return partial(bool, next(has_time))

    monkeypatch.setattr(offload_choice, "_timer", timer)
    exe = compiled(wide_layers(), costs="measured", num_veus=1)
    found = exe.stats["offload"]
    assert found["simulations"] == 3 and found["kept"] == 2, found
    assert {m.name for m in exe.image.modules} == {"products_1_code", "products_2_code"}
    assert found["chosen_measured"] < min(found["host_measured"], found["all_measured"])
    names = [operator.name for operator in exe.image.program.operators]
    assert not any("rtask.unit" in name for name in names), names


def test_programs_without_time_to_compile_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With ``offload_seconds=0``, only the programs with no region and with all are measured.

    A warning and the summary report the programs that there was no time to compile.
    """
    monkeypatch.setenv("RAMMER_PROFILES", str(tmp_path / "profiles.sqlite"))
    with caplog.at_level(logging.WARNING, "rammer_mlir"):
        exe = compiled(wide_layers(), costs="measured", offload_seconds=0.0)
    found = exe.stats["offload"]
    assert found["measured"] == 2 and found["unmeasured"] > 0
    assert f"(2 programs, {found['unmeasured']} not tried)" in exe.summary
    assert "expected to compile all competing programs in 0 s, found no time for" in caplog.text
    check(exe, wide_layers())


def test_nothing_is_measured_unless_costs_are() -> None:
    exe = compiled(build("mlp", scale="small"))
    assert exe.stats["offload"]["measured"] == 0 and "measured" not in exe.summary
