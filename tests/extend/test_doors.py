"""Tests of extensions that a program registers.

They are policies, devices, passes, cost functions, targets and providers. A registered object is
used where its name is given; a malformed or failing object is refused in one line.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from rammer_mlir.bindings import ir
from rammer_mlir.compiler.backends.cpu import CpuBackend
from rammer_mlir.compiler.backends.registry import TARGETS
from rammer_mlir.compiler.caching.keys import compile_key
from rammer_mlir.compiler.options import check_options
from rammer_mlir.errors import OptionError, PassError, ScheduleError
from rammer_mlir.extend import (
    Backend,
    DeviceDescription,
    Pass,
    register_costs,
    register_device,
    register_pass,
    register_policy,
    register_rkernels,
    register_target,
)
from rammer_mlir.passes.manager import run_pipeline
from rammer_mlir.passes.registry import EXTENSION_PASSES
from rammer_mlir.scheduling.cost_functions import COST_FUNCTIONS, seconds_by
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.devices import catalog
from rammer_mlir.scheduling.devices.catalog import DEVICES, cpu_device, device_for, find_device
from rammer_mlir.scheduling.graph import RKernel, TaskGraph
from rammer_mlir.scheduling.policies import POLICIES, get_policy, is_own_policy
from rammer_mlir.scheduling.policies.auto import Auto
from rammer_mlir.scheduling.policies.policy import Policy
from rammer_mlir.scheduling.policies.wavefront import Wavefront
from rammer_mlir.scheduling.program import Plan
from rammer_mlir.support.plugins import Registry
from tests.cli.tools import save_layer
from tests.passes.small_module import module
from tests.scheduling.graphs import random_graph

KERNEL = RKernel(name="k", num_rtasks=1, reads=(), writes=())


@contextmanager
def registered(registry: Registry[Any], name: str, value: object) -> Generator[None]:
    """Register ``value`` under ``name`` while the context is entered."""
    registry.register(name, value)
    try:
        yield
    finally:
        registry.unregister(name)


class Prophet(Wavefront):
    """The policy `wavefront`, which `auto` tries too; ``asked`` has the vEU count of each call."""

    name: ClassVar[str] = "prophet"
    joins_auto: ClassVar[bool] = True
    asked: ClassVar[list[int]] = []

    def schedule(self, graph: TaskGraph, device: Device) -> Plan:
        """Return the plan of `wavefront`, and record the number of vEUs."""
        self.asked.append(device.num_veus)
        return super().schedule(graph, device)


def test_auto_tries_policies_that_join_it() -> None:
    graph, device = random_graph(1, length=6), cpu_device(3)
    assert is_own_policy("auto")
    with registered(POLICIES, "prophet", Prophet):
        assert not is_own_policy("auto") and not is_own_policy("prophet")
        get_policy("auto").schedule(graph, device)
    assert Prophet.asked == [3]
    get_policy("auto").schedule(graph, device)
    assert Prophet.asked == [3]


def test_a_policy_of_another_name_is_refused() -> None:
    with pytest.raises(OptionError, match="expected the name 'other', found 'prophet'"):
        POLICIES.register("other", Prophet())
    with pytest.raises(OptionError, match="policy 'wavefront' exists already"):
        register_policy(Wavefront())


def test_a_name_that_lists_and_options_cannot_contain_is_refused() -> None:
    for name in ("a b", "a,b", "a{b}", "1st", "é", ""):
        with pytest.raises(OptionError, match="expected a name of letters, digits, '_' and '-'"):
            register_policy(type("Named", (Wavefront,), {"name": name})())


class Stuck(Wavefront):
    """A policy that fails."""

    name: ClassVar[str] = "stuck"
    joins_auto: ClassVar[bool] = True

    def schedule(self, graph: TaskGraph, device: Device) -> Plan:
        """Raise a ``KeyError``."""
        raise KeyError("key")


class Mute(Stuck):
    """A policy that returns None instead of a plan."""

    name: ClassVar[str] = "mute"

    def schedule(self, graph: TaskGraph, device: Device) -> Plan:
        """Return None."""
        nothing: Any = None
        return nothing


class Picky(Stuck):
    """A policy that raises an error of the package's own class ``OptionError``."""

    name: ClassVar[str] = "picky"

    def schedule(self, graph: TaskGraph, device: Device) -> Plan:
        """Raise an ``OptionError``."""
        raise OptionError("expected another device")


@pytest.mark.parametrize("executor", [None, ThreadPoolExecutor(1)], ids=["here", "executor"])
@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (Stuck, "policy 'stuck' failed with KeyError: 'key'; mend it, or choose another one"),
        (Mute, "policy 'mute': expected a Plan, found NoneType"),
        (Picky, "policy 'picky': expected another device"),
    ],
)
def test_auto_names_a_policy_that_fails(
    policy: type[Policy], message: str, executor: Executor | None
) -> None:
    auto = Auto(executor=executor, further=lambda: (policy(),))
    with pytest.raises(ScheduleError) as caught:
        auto.schedule(random_graph(1, length=6), cpu_device(3))
    assert str(caught.value) == message


def test_devices_from_outside(tmp_path: Path) -> None:
    mine = replace(find_device("cpu"), name="mine", targets=("mine:v1",))
    with registered(DEVICES, "mine", mine):
        assert find_device("mine") is mine
        assert device_for("mine:v1") is mine
        assert device_for("cpu").name == "cpu"
    assert device_for("mine:v1").name == "cpu"
    file = tmp_path / "filed.toml"
    text = (Path(catalog.__file__).parent / "cpu.toml").read_text("utf-8")
    file.write_text(text.replace("units = 64", "units = 3"), "utf-8")
    with registered(DEVICES, "filed", file):
        assert find_device("filed").units == 3
    with pytest.raises(OptionError, match="unknown device 'filed': expected one of a100, cpu, h1"):
        find_device("filed")


def test_devices_that_are_refused(tmp_path: Path) -> None:
    class Clever(DeviceDescription):
        """A subclass, refused because the compile cache's keys do not cover a subclass's code."""

    cpu = find_device("cpu")
    fields: dict[str, Any] = {name: getattr(cpu, name) for name in cpu.__dataclass_fields__}
    fields["name"] = "clever"
    wrong: Any = "cpu.toml"
    for device in (wrong, Clever(**fields)):
        with pytest.raises(
            OptionError, match=r"expected a DeviceDescription or the Path of a .tom"
        ):
            register_device(device)
    with pytest.raises(OptionError, match="device 'cpu' exists already"):
        register_device(cpu)
    with pytest.raises(OptionError, match=r"cannot read '.*gone.toml'"):
        register_device(tmp_path / "gone.toml")


@dataclass(frozen=True)
class Rename(Pass):
    """Rename a function."""

    name: ClassVar[str] = "rename-function"

    to: str = "renamed"

    def run(self, module: ir.Module) -> None:
        """Rename the first function."""
        function, *_ = module.body.operations
        function.operation.attributes["sym_name"] = ir.StringAttr.get(self.to)


def test_passes_from_outside() -> None:
    with registered(EXTENSION_PASSES, "rename-function", Rename):
        found = module()
        run_pipeline(found, "builtin.module(cse,rename-function{to=other},canonicalize)")
        assert "@other" in str(found)
        with pytest.raises(PassError, match=r"column 16: unknown pass 'rename-functio', did you"):
            run_pipeline(module(), "builtin.module(rename-functio)")
        with pytest.raises(PassError, match="unknown option 'too': expected one of to, did you me"):
            run_pipeline(module(), "builtin.module(rename-function{too=x})")
        with pytest.raises(PassError, match=r"expected 'rename-function' directly in 'builtin.mod"):
            run_pipeline(module(), "builtin.module(func.func(rename-function))")
    with pytest.raises(PassError, match="unknown pass 'rename-function'"):
        run_pipeline(module(), "builtin.module(rename-function)")


class Stumbling(Rename):
    """A pass with a mistake."""

    name: ClassVar[str] = "stumbling"

    def run(self, module: ir.Module) -> None:
        """Fail."""
        raise ValueError(f"no function {self.to}\nat all")


class Misreading(Stumbling):
    """A pass that parses invalid MLIR text."""

    name: ClassVar[str] = "misreading"

    def run(self, module: ir.Module) -> None:
        """Fail in MLIR."""
        ir.Module.parse("func.func @f( {")


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Stumbling, "'stumbling' failed with ValueError: no function f at all; mend it"),
        (Misreading, "'misreading' failed with MLIRError: expected non-function type; mend it"),
    ],
)
def test_a_pass_that_fails_is_named_in_an_error(kind: type[Pass], message: str) -> None:
    with registered(EXTENSION_PASSES, kind.name, kind):
        with pytest.raises(PassError) as caught:
            run_pipeline(module(), f"builtin.module({kind.name}{{to=f}})")
    assert str(caught.value) == message


class Abstract(Pass):
    """A pass that does nothing at all."""

    name: ClassVar[str] = "abstract"


@dataclass(frozen=True)
class ComplexOption(Rename):
    """A pass with an option of the type complex, which registration must refuse."""

    name: ClassVar[str] = "complex-option"

    weight: complex = 1j


def named(name: str) -> type[Pass]:
    """Return a pass class with the given name."""
    return type("Named", (Rename,), {"name": name})


REFUSED_PASSES: dict[str, tuple[Any, str]] = {
    "function": (print, "expected a subclass of rammer_mlir.passes.Pass with a method run"),
    "object": (Rename(), "expected a subclass of rammer_mlir.passes.Pass"),
    "abstract": (Abstract, "expected a subclass of .* found the class Abstract"),
    "option": (ComplexOption, "expected options of int, .* found 'weight: complex'"),
    "own name": (named("rtask-mine"), "without 'rtask-', found 'rtask-mine'"),
    "name": (named("My Pass"), "lowercase words and dashes.* found 'My Pass'"),
    "of MLIR": (named("canonicalize"), "expected a name that MLIR has no pass of, found 'canon"),
}


@pytest.mark.parametrize("case", REFUSED_PASSES)
def test_passes_that_are_refused(case: str) -> None:
    kind, message = REFUSED_PASSES[case]
    with pytest.raises(OptionError, match=message):
        register_pass(kind)


@pytest.mark.parametrize("answer", [0.0, -1.0, float("nan"), float("inf"), "1", True])
def test_answers_that_are_no_time(answer: Any) -> None:
    with registered(COST_FUNCTIONS, "mine", lambda kernel, device: answer):  # pyright: ignore[reportUnknownLambdaType]
        with pytest.raises(ScheduleError, match="cost function 'mine': expected positive, finite"):
            seconds_by("mine", KERNEL, cpu_device(1))


def test_cost_functions() -> None:
    def costs(kernel: RKernel, device: Device) -> float | None:
        return 1.0 / (device.num_veus - 1) if kernel.name == "k" else None

    with registered(COST_FUNCTIONS, "mine", costs):
        assert seconds_by("mine", KERNEL, cpu_device(3)) == 0.5
        assert seconds_by("mine", replace(KERNEL, name="l"), cpu_device(3)) is None
        with pytest.raises(ScheduleError, match="'mine' failed on rKernel '@k' with ZeroDivision"):
            seconds_by("mine", KERNEL, cpu_device(1))
    with registered(COST_FUNCTIONS, "mine", lambda kernel, device: sys.exit(0)):  # pyright: ignore[reportUnknownLambdaType]
        with pytest.raises(ScheduleError, match="'mine' failed on rKernel '@k' with SystemExit: 0"):
            seconds_by("mine", KERNEL, cpu_device(1))
    for name in ("a:b", "a.toml", "a b", ""):
        with pytest.raises(OptionError, match="expected a name of letters, digits, '_' and '-'"):
            register_costs(name, costs)
    with pytest.raises(OptionError, match="expected a name other than measured, found 'measured'"):
        register_costs("measured", costs)
    wrong: Any = 3.0
    with pytest.raises(OptionError, match=r"expected a function .rkernel, device. -> seconds"):
        register_costs("number", wrong)


@dataclass(frozen=True)
class Twin(CpuBackend):
    """The target `cpu` under another name."""

    name: ClassVar[str] = "twin"
    spelling: ClassVar[str] = "twin"


class Unfinished(Backend):
    """A target without stages."""

    name: ClassVar[str] = "unfinished"
    spelling: ClassVar[str] = "unfinished"


def test_targets_from_outside(tmp_path: Path) -> None:
    model = str(save_layer(tmp_path / "layer.onnx"))
    assert compile_key(model, check_options("cpu"), None) is not None
    with registered(TARGETS, "twin", Twin):
        checked = check_options("twin")
        assert (checked.backend, checked.device) == (Twin(), "cpu")
        with pytest.raises(OptionError, match=r"unknown target 'x': .* emulator\[:GPU\], twin$"):
            check_options("x")
        assert compile_key(model, checked, None) is None
        shadow = replace(find_device("cpu"), name="shadow", targets=("twin",))
        with registered(DEVICES, "shadow", shadow):
            assert check_options("twin").device == "shadow"
    with pytest.raises(OptionError, match="unknown target 'twin'"):
        check_options("twin")


REFUSED_TARGETS: dict[str, tuple[Any, str]] = {
    "function": (print, "expected a subclass of Backend that defines all of its abstract methods"),
    "object": (Twin(), "expected a subclass of Backend .* found Twin"),
    "unfinished": (Unfinished, "expected a subclass of Backend .* found the class Unfinished"),
    "built in": (CpuBackend, "target 'cpu' exists already: choose another name"),
    "name": (type("Colon", (Twin,), {"name": "a:b"}), "expected a name of letters, digits"),
}


@pytest.mark.parametrize("case", REFUSED_TARGETS)
def test_targets_that_are_refused(case: str) -> None:
    target, message = REFUSED_TARGETS[case]
    with pytest.raises(OptionError, match=message):
        register_target(target)


@pytest.mark.parametrize("provider", [None, "rows", object()])
def test_providers_that_are_refused(provider: Any) -> None:
    with pytest.raises(OptionError, match="expected an rKernel provider, with a name and a func"):
        register_rkernels(provider)
