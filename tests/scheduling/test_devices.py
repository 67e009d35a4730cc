"""Tests that the project's device descriptions are consistent and usable by all policies.

Wrong descriptions are refused.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rammer_mlir.errors import OptionError
from rammer_mlir.lowering.nvvm.target import CHIPS as NVIDIA_CHIPS
from rammer_mlir.lowering.rocdl.target import CHIPS as AMD_CHIPS
from rammer_mlir.scheduling.costs import rtask_seconds
from rammer_mlir.scheduling.devices.catalog import (
    CPU,
    cpu_device,
    device_for,
    find_device,
    names,
    register_device,
)
from rammer_mlir.scheduling.devices.description import check_description, read_description
from rammer_mlir.scheduling.graph import RKernel
from rammer_mlir.scheduling.minimize import minimize
from rammer_mlir.scheduling.policies import get_policy
from rammer_mlir.scheduling.verifier import verify
from tests.scheduling.graphs import random_graph

FOLDER = Path(read_description.__code__.co_filename).parent

LANES = {
    "v100": 64,
    "rtx2080ti": 64,
    "a100": 64,
    "h100": 128,
    "h200": 128,
    "mi50": 64,
    "mi300x": 128,
}
"""f32 multiply-adds per cycle and unit, from the makers' documents."""


@pytest.mark.parametrize("name", names())
def test_every_policy_schedules_for_every_device(name: str) -> None:
    device = find_device(name).device(6)
    for policy in ("sequential", "wavefront", "ios", "list", "auto"):
        for seed in (1, 2, 3):
            graph = random_graph(seed)
            plan = minimize(get_policy(policy).schedule(graph, device))
            verify(graph, plan)
            assert plan.predicted_seconds >= device.launch_seconds


def test_the_devices_that_are_described() -> None:
    nvidia = {"v100", "v100_rammer", "rtx2080ti", "a100", "h100", "h200"}
    amd = {"mi50", "mi250x", "mi300x"}
    assert set(names()) == nvidia | amd | {"ipu", CPU}
    assert find_device("ipu").max_veus == 1216
    assert find_device("A100").name == "a100"


@pytest.mark.parametrize(("name", "lanes"), LANES.items())
def test_figures_agree_with_each_other(name: str, lanes: int) -> None:
    """The peak arithmetic rate of a description equals units times lanes times 2 times clock."""
    found = find_device(name)
    peak = found.units * lanes * 2 * found.clock_hertz
    assert found.flops_per_second["f32"] == pytest.approx(peak, rel=0.03)
    assert found.unit_bytes_per_second * found.units > found.bytes_per_second


def test_loads_in_flight_limit_the_bandwidth_of_a_veu() -> None:
    """One vEU per unit cannot saturate the memory of an H200; two vEUs per unit can."""
    described = find_device("h200")
    one, two, eight = (described.device(count * described.units) for count in (1, 2, 8))
    in_flight = described.bytes_in_flight_per_veu / described.memory_latency_seconds
    assert one.bytes_per_second == two.bytes_per_second == in_flight
    assert described.units * one.bytes_per_second < one.total_bytes_per_second
    assert described.units * 2 * two.bytes_per_second > two.total_bytes_per_second
    assert eight.bytes_per_second == described.unit_bytes_per_second / 8
    free = replace(described, memory_latency_seconds=0.0, bytes_in_flight_per_veu=0)
    assert free.device(1).bytes_per_second == described.unit_bytes_per_second


def test_latency_and_bytes_in_flight_belong_together(tmp_path: Path) -> None:
    text = (FOLDER / "h100.toml").read_text(encoding="utf-8")
    half = tmp_path / "half.toml"
    half.write_text(re.sub("(?m)^bytes_in_flight_per_veu = .*\n", "", text), encoding="utf-8")
    with pytest.raises(OptionError, match="expected both or none of 'memory_latency_seconds'"):
        find_device(str(half))


def test_units_are_shared() -> None:
    one = find_device("a100").device()
    assert one.num_veus == 108
    two = find_device("a100").device(109)
    assert two.flops_per_second == one.flops_per_second / 2
    assert find_device("v100").device(81).bytes_per_second == (
        find_device("v100").device().bytes_per_second / 2
    )
    assert two.total_bytes_per_second == one.total_bytes_per_second
    assert find_device("a100").device(4).flops_per_second == one.flops_per_second
    half = find_device("a100").device(4, "f16")
    assert half.flops_per_second == 16 * one.flops_per_second


def test_targets_have_a_device_like_them() -> None:
    assert device_for("nvvm:sm_80").name == "a100"
    assert device_for("rocdl:gfx90a").name == "mi250x"
    assert device_for("cpu").name == "cpu"
    for target in (*(f"nvvm:{c}" for c in NVIDIA_CHIPS), *(f"rocdl:{c}" for c in AMD_CHIPS)):
        assert device_for(target).name != "cpu", target


def test_terms_that_a_file_may_leave_out(tmp_path: Path) -> None:
    """Three fields of a description are optional: two efficiencies, and the cost of later launches.

    Without them, vEUs reach the peak rates, and every launch costs as much as the first.
    """
    path = tmp_path / "mine.toml"
    terms = ("queued_launch_seconds", "arithmetic_efficiency", "bandwidth_efficiency")
    text = (FOLDER / "v100_rammer.toml").read_text(encoding="utf-8")
    kept = [line for line in text.splitlines() if not line.startswith(terms)]
    path.write_text("\n".join(kept), encoding="utf-8")
    with_terms, without = find_device("v100_rammer"), find_device(str(path))
    reached, peak = with_terms.device(), without.device()
    assert peak.flops_per_second * 80 == pytest.approx(1.57e13)
    assert peak.total_bytes_per_second == 9e11
    assert reached.flops_per_second == pytest.approx(
        with_terms.arithmetic_efficiency * peak.flops_per_second
    )
    assert reached.total_bytes_per_second == with_terms.bandwidth_efficiency * 9e11
    assert [peak.start_seconds(n) for n in (0, 1, 7)] == [4e-6] * 3
    queued = with_terms.queued_launch_seconds
    assert [reached.start_seconds(n) for n in (0, 1, 7)] == [4e-6, queued, queued]
    ipu = find_device("ipu").device()
    assert [ipu.start_seconds(n) for n in (0, 1)] == [ipu.launch_seconds, ipu.barrier_seconds]


@pytest.mark.parametrize("num_veus", [0, -1, 1025])
def test_numbers_of_veus(num_veus: int) -> None:
    with pytest.raises(OptionError, match=rf"number of vEUs: expected at .*, found {num_veus}"):
        cpu_device(num_veus)


def test_a_type_without_a_figure() -> None:
    with pytest.raises(OptionError, match="device 'v100': expected one of f64, f32, f16 in"):
        find_device("v100").device(4, "i8")


def test_an_unknown_device() -> None:
    with pytest.raises(OptionError, match="unknown device 'b300': expected one of a100, cpu, "):
        find_device("b300")
    with pytest.raises(OptionError, match=r"cannot read 'nowhere.toml': No such file"):
        find_device("nowhere.toml")


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("units = 80\n", "", "expected 'units', found none; add it"),
        ("units = 80", "units = 0", "units: expected an integer from 1 to 1e.15, found 0"),
        ("units = 80", "units = 80.5", "units: expected an integer from 1 to 1e.15, found 80.5"),
        ("units = 80", "units = true", "units: expected an integer from 1 to 1e.15, found True"),
        ("units = 80", "units = -3", "units: expected an integer from 1 to 1e.15, found -3"),
        ("units = 80", "unites = 80\nunits = 80", "expected one of title, targets, units, "),
        (
            "bytes_per_second = 9e11",
            "bytes_per_second = inf",
            "from 1 to 1e.24, found inf",
        ),
        ("bytes_per_second = 9e11", "bytes_per_second = nan", "from 1 to 1e.24, found nan"),
        ("bytes_per_second = 9e11", 'bytes_per_second = "fast"', "found 'fast'"),
        (
            "launch_seconds = 4e-06",
            "launch_seconds = -1",
            "a number from 0 to 3600, found -1",
        ),
        ("f32 = 1.57e13", "f32 = 0", r"flops_per_second.f32: expected a number from 1 to"),
        ("f32 = 1.57e13\n", "", "flops_per_second: expected 'f32', found none"),
        ("f32 = 1.57e13", "f32 = 1.57e13\nf31 = 1", "flops_per_second: expected some of .* 'f31'"),
        ('units = "NVIDIA', 'unit = "NVIDIA', "sources: expected where 'units' is from, found not"),
        ("targets = [", "targets = [3, ", r"targets: expected a list of texts, found \[3"),
        ("units = 80", "units = 80 80", "is not a device file in TOML: "),
        (
            "is_bulk_synchronous = false",
            "is_bulk_synchronous = false\narithmetic_efficiency = 0.0",
            "arithmetic_efficiency: expected a number from 1e-06 to 1, found 0",
        ),
        ('title = "NVIDIA', 'title = ""\n#', "title: expected a text, found ''"),
        ("launch_seconds = 4e-06", "launch_seconds = 1e300", r"0 to 3600, found 1e\+300"),
        ("f32 = 1.57e13", "f32 = 1e-300", "expected a number from 1 to 1e.24, found 1e-300"),
        ("units = 80", f"units = 1{'0' * 300}", r"1 to 1e.15, found 1000.*\.\.\.0"),
    ],
)
def test_files_that_are_wrong(before: str, after: str, message: str, tmp_path: Path) -> None:
    text = (FOLDER / "v100.toml").read_text(encoding="utf-8")
    assert before in text
    path = tmp_path / "mine.toml"
    path.write_text(text.replace(before, after, 1), encoding="utf-8")
    with pytest.raises(OptionError, match=message) as raised:
        find_device(str(path))
    assert "\n" not in str(raised.value) and str(path) in str(raised.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"units": "a"}, "device 'mine': units: expected an integer from 1 to 1e.15, found 'a'"),
        ({"units": -1}, "units: expected an integer from 1 to 1e.15, found -1"),
        (
            {"bytes_per_second": None},
            "bytes_per_second: expected a number from 1 .* None",
        ),
        ({"flops_per_second": {}}, "flops_per_second: expected a table, found {}"),
        ({"flops_per_second": {"f16": 1e12}}, "flops_per_second: expected 'f32', found none"),
        ({"arithmetic_efficiency": 2.0}, "expected a number from 1e-06 to 1, found 2"),
        ({"targets": 3}, "targets: expected a list of texts, found 3"),
        ({"name": 3}, "expected a text as name, found 3"),
        ({"name": ""}, "expected a text as name, found ''"),
    ],
)
def test_descriptions_of_programs_are_checked(changes: dict[str, Any], message: str) -> None:
    device: Any = replace(find_device("v100"), **{"name": "mine", **changes})
    with pytest.raises(OptionError, match=message):
        register_device(device)


def test_own_descriptions_pass_the_check_of_programs() -> None:
    for name in names():
        device = find_device(name)
        assert check_description(device) is device
        assert check_description(replace(device, sources={})).units == device.units


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    text = (FOLDER / "v100.toml").read_text(encoding="utf-8")
    path.write_text(text.replace("units = 80", "units = 7", 1), encoding="utf-8")
    mine = find_device(str(path))
    assert (mine.name, mine.max_veus) == ("mine", 56)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(OptionError, match="is not a device file in TOML"):
        find_device(str(path))
    with pytest.raises(OptionError, match="cannot read"):
        find_device(f"{tmp_path}.toml")


def test_matrix_instructions_have_a_rate_of_their_own() -> None:
    device = find_device("h100").device(264)
    f16 = find_device("h100").flops_per_second["f16"] / 264
    assert device.rate("f16") == pytest.approx(f16)
    assert device.rate("") == device.rate("f64") == device.flops_per_second
    assert device.with_rate("f16").flops_per_second == device.rate("f16")
    narrow = RKernel("k", 4, (), (), flops_per_rtask=10**9, matrix_element="f16")
    plain = replace(narrow, matrix_element="")
    start = device.rtask_seconds
    assert rtask_seconds(narrow, device) - start == pytest.approx(1e9 / f16)
    assert rtask_seconds(plain, device) - start == pytest.approx(1e9 / device.flops_per_second)
