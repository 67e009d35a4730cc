"""Tests that a kit runs and measures all its cases, on a stand-in for CUDA's driver.

Cases that fail are reported, and a run continues where the last one stopped. The package that
writes a kit stores equal weights once, and refuses a kit that is too large.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rammer_mlir.benchmarks.gpu.kit import __main__ as tool
from rammer_mlir.benchmarks.gpu.kit.cases import SUBJECTS as ALL_SUBJECTS
from rammer_mlir.benchmarks.gpu.kit.cases import Relay, cases_of
from rammer_mlir.benchmarks.gpu.kit.manifest import PROGRAMS, ProgramFacts
from rammer_mlir.benchmarks.gpu.kit.measure import floor_seconds
from rammer_mlir.benchmarks.gpu.kit.pack import pack
from rammer_mlir.benchmarks.gpu.kit.results import read_results
from rammer_mlir.benchmarks.gpu.kit.seeds import Seeded, resembling
from rammer_mlir.errors import OptionError
from rammer_mlir.lowering.external.c_compiler import find_c_compiler
from rammer_mlir.runtime.gpu.driver import Peaks
from rammer_mlir.scheduling.devices.catalog import find_device
from tests.gpu_kit.kernels import RELAY_132, SUBJECTS, TARGET, let_misbehave, write_kernels

STANDIN = Path(__file__).parent / "standin"

SANITIZER = """#!/bin/sh
# Finds races in every program, and nothing else.
tool=$2
shift 4
"$@" || exit $?
[ "$tool" = racecheck ] && echo "ERROR SUMMARY: 1 error" && exit 99
exit 0
"""


@dataclass(frozen=True)
class Place:
    """The paths of a kit, of the stand-in's library, of its kernels, and of the working folder."""

    kit: Path
    libraries: Path
    kernels: Path
    folder: Path

    def command(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run ``python KIT ...`` with the stand-in in the place of CUDA's driver."""
        given = {
            **os.environ, "LD_LIBRARY_PATH": str(self.libraries), "PYTHONPATH": str(STANDIN),
            "STANDIN_KERNELS": str(self.kernels), "STANDIN_BYTES": str(64 << 20),
            "STANDIN_LOG": str(self.folder / "calls.txt"), **environment,
        }  # fmt: skip
        return subprocess.run(
            [sys.executable, str(self.kit), *arguments], cwd=self.folder, env=given,
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    def results(self) -> dict[str, dict[str, Any]]:
        """Return the results that runs of the kit wrote: for each case, its record by key."""
        return read_results(self.folder / "results.jsonl")

    def calls(self) -> list[str]:
        """Return the logged calls of the stand-in, one line for each."""
        return (self.folder / "calls.txt").read_text().splitlines()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Place:
    pytest.importorskip("cuda.bindings.driver")
    folder = tmp_path_factory.mktemp("kit")
    kit, libraries = folder / "kit", folder / "libraries"
    libraries.mkdir()
    library = libraries / "libcuda.so.1"
    options = ["-shared", "-fPIC", "-O1", "-w", str(STANDIN / "libcuda.c"), "-o", str(library)]
    subprocess.run([*find_c_compiler(), *options, "-ldl"], check=True)
    pack(kit, TARGET, SUBJECTS, megabytes=60, jobs=1)
    write_kernels(kit, folder / "kernels")
    return Place(kit, libraries, folder / "kernels", folder)


@pytest.mark.slow
def test_a_relay_over_all_multiprocessors(made: Place, tmp_path: Path) -> None:
    kit, kernels = tmp_path / "kit", tmp_path / "kernels"
    pack(kit, TARGET, [RELAY_132], megabytes=60, jobs=1)
    write_kernels(kit, kernels, [RELAY_132])
    place = replace(made, kit=kit, kernels=kernels, folder=tmp_path)
    done = place.command("--seconds", "0.01", "--cases", "relay-132.wavefront")
    assert done.returncode == 0, done.stdout
    _check_program(place.results()["relay-132.wavefront"])


@pytest.fixture
def place(made: Place, tmp_path: Path) -> Place:
    """Return the paths of the kit, of a copy of its kernels, and of an empty working folder."""
    kernels = tmp_path / "kernels"
    shutil.copytree(made.kernels, kernels)
    return replace(made, kernels=kernels, folder=tmp_path)


def test_the_whole_sequence(place: Place) -> None:
    """Every case of the kit has a result: ``absent`` if this machine cannot run the case."""
    tools = place.folder / "tools"
    tools.mkdir()
    sanitizer = tools / "compute-sanitizer"
    sanitizer.write_text(SANITIZER)
    sanitizer.chmod(0o755)
    done = place.command("--seconds", "0.01", PATH=f"{tools}:{os.environ['PATH']}")
    results = place.results()
    bad = {n: r for n, r in results.items() if r["status"] not in ("ok", "absent")}
    assert list(bad) == ["one-element.racecheck"], bad
    assert (done.returncode, bad["one-element.racecheck"]["status"]) == (1, "wrong")
    assert list(results) == [case.name for case in cases_of(SUBJECTS)]
    assert len(done.stdout.splitlines()) == len(results)
    _check_program(results["relay-16.wavefront"])
    _check_program(results["product-tf32.wavefront"])
    assert results["product-tf32.wavefront"]["sets"] == 16
    assert results["one-element.memcheck"]["status"] == "ok"
    assert "graph" not in results["one-element.memcheck"]
    machine, probe = results["machine"], results["probe"]
    assert (machine["chip"], machine["driver"]) == ("sm_90", "13.0")
    assert probe["wrong_shared_loads"] == 0 and all(h["right"] for h in probe["hand_offs"])
    sizes = {read["in_cache"]: read["bytes"] for read in probe["reads"]}
    assert 30 << 20 < max(read["bytes"] for read in probe["reads"]) <= 32 << 20
    assert 0 < sizes[True] <= 16 << 20
    _check_calls(place.calls())
    text = place.command("report").stdout
    assert "chain" in text and "5x24x40" not in text and "racecheck" in text
    assert place.command("--seconds", "0.01").returncode == 1  # nothing is left to run
    assert len(place.results()) == len(results)


def _check_program(result: dict[str, Any]) -> None:
    assert result["excess"] <= 1 and result["graph_excess"] <= 1 and result["repeats"]
    for way in ("launch", "graph"):
        for clock in ("device", "wall"):
            times = result[way][clock]
            assert 0 < times["low"] <= times["median"] <= times["high"] and times["runs"] >= 3
    assert result["floor"] > 0


def _check_calls(calls: Sequence[str]) -> None:
    kinds = {call.split()[0] for call in calls}
    assert kinds >= {
        "cuModuleLoadData", "cuLaunchCooperativeKernel", "cuLaunchKernel", "cuGraphInstantiate",
        "cuGraphLaunch", "cuMemcpyHtoDAsync", "cuEventElapsedTime",
    }  # fmt: skip
    assert {call.split()[1] for call in calls if call.startswith("cuModuleLoadData")} == {"ELF"}
    assert any(call.endswith("captured") for call in calls)
    # A launch of each of several operators, in one graph.
    assert any(call.startswith("cuGraphLaunch") and int(call.split()[1]) > 1 for call in calls)


def test_cases_that_hang_crash_or_are_wrong_or_missing(made: Place, place: Place) -> None:
    """Each failing case has a status and a message in the results, and the next case runs."""
    kit = place.folder / "kit"
    shutil.copytree(made.kit, kit, symlinks=True)
    place = replace(place, kit=kit)
    (kit / PROGRAMS / "chain.wavefront.program").unlink()
    damaged = kit / PROGRAMS / "empty.wavefront.program"
    damaged.write_bytes(damaged.read_bytes()[:1000])
    for name, behavior in (("relay-2", "hang"), ("relay-16", "wrong"), ("product-f16", "crash")):
        let_misbehave(kit, place.kernels, f"{name}.wavefront", behavior)
    names = ["relay-2", "relay-16", "product-f16", "chain", "empty", "one-element"]
    cases = [f"{name}.wavefront" for name in names]
    done = place.command("--seconds", "0.01", "--limit", "12", "--cases", *cases)
    results = place.results()
    assert done.returncode == 1
    found = {name: results[f"{name}.wavefront"]["status"] for name in names}
    assert found == {
        "relay-2": "hung", "relay-16": "wrong", "product-f16": "crashed", "chain": "failed",
        "empty": "failed", "one-element": "ok",
    }  # fmt: skip
    messages = {name: results[f"{name}.wavefront"].get("message", "") for name in names}
    assert messages["relay-2"] == "no result after 12 s"
    assert "expected 32.5, found" in messages["relay-16"]
    assert messages["product-f16"] == "ended by SIGABRT"
    assert "chain.wavefront.program" in messages["chain"] and "pack it again" in messages["chain"]
    assert "empty.wavefront.program" in messages["empty"]
    text = place.command("report").stdout
    assert "| hung " in text and "ended by SIGABRT" in text


def test_a_command_goes_on_where_the_last_one_stopped(place: Place) -> None:
    cases = ["--cases", "machine", "one-element.wavefront", "empty.wavefront", "--seconds", "0.01"]
    done = place.command("--budget", "40", *cases)
    assert done.returncode == 3
    assert done.stdout.splitlines()[-1] == "2 cases are left: run the same command again"
    assert list(place.results()) == ["machine"]
    assert place.command("--budget", "0.01", *cases).returncode == 3
    assert list(place.results()) == ["machine"]  # a case that is cut off has no result
    done = place.command("--budget", "200", *cases)
    assert (done.returncode, len(place.results())) == (0, 3)
    with (place.folder / "results.jsonl").open("a") as file:
        file.write('{"case": "mach')  # the machine was switched off meanwhile
    assert len(place.results()) == 3


def test_a_probe_that_computes_wrong_numbers(place: Place) -> None:
    """The case ``probe``, which measures the GPU, is wrong if its kernels load wrong numbers.

    The case's message and the report state how many loads were wrong.
    """
    done = place.command("--cases", "probe", PYTHONPATH="")  # no hook: kernels write nothing
    result = place.results()["probe"]
    assert (done.returncode, result["status"]) == (1, "wrong")
    # The memory is cleared before, and thread 0 has to load a 0.
    assert result["message"].startswith("255 loads from shared addresses that wrap are wrong; ")
    assert "relaxed over 132" in result["message"]
    assert "255 wrong" in place.command("report").stdout


def test_without_a_gpu(made: Place, tmp_path: Path) -> None:
    place = replace(made, folder=tmp_path)
    done = place.command(
        "--cases", "machine", LD_LIBRARY_PATH="", PYTHONPATH="", STANDIN_KERNELS=""
    )  # fmt: skip
    if shutil.which("nvidia-smi") is None:
        assert done.returncode == 1
        assert "expected its driver and a device, found none" in done.stdout


def test_a_kit_needs_neither_the_compiler_nor_the_package(made: Place) -> None:
    """A kit prints its usage where no package of the compiler can be imported."""
    code = (
        "import runpy, sys; absent = 'onnx', 'onnxruntime', 'torch_mlir', 'llvmlite', 'ml_dtypes';"
        f"sys.modules |= dict.fromkeys(absent); sys.argv = ['kit', '--help'];"
        f"runpy.run_path('{made.kit}', run_name='__main__')"
    )
    environment = {name: v for name, v in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd="/"
    )
    assert done.returncode == 0, done.stderr
    assert "usage:" in done.stdout


def test_equal_weights_are_stored_once(made: Place) -> None:
    sizes = [file.stat().st_size for file in (made.kit / "arrays").iterdir()]
    policies = 2
    weights = 12072  # of the chain, in bytes
    assert weights < sum(sizes) < weights * policies


@pytest.mark.parametrize(
    "seeded",
    [
        Seeded(1, (64, 65), "float32", (0.5,)),
        Seeded(2, (8, 16, 3, 3), "float32", tuple(0.1 * n for n in range(1, 9)), True),
        Seeded(3, (5000,), "float16", (2.0,)),
    ],
)
def test_seeded_arrays(seeded: Seeded) -> None:
    array = seeded.array()
    assert (array.shape, array.dtype.name) == (seeded.shape, seeded.dtype)
    again = Seeded.of_json(json.loads(json.dumps(seeded.to_json())))
    np.testing.assert_array_equal(again.array(), array)
    rows = array.astype(np.float64).reshape(len(seeded.scales), -1)
    np.testing.assert_allclose(rows.std(axis=1), seeded.scales, rtol=0.1)
    if seeded.centered:
        np.testing.assert_allclose(rows.mean(axis=1), 0, atol=1e-6)
    found = resembling(array, seeded.seed)
    if found is not None:
        assert found.centered == seeded.centered
        np.testing.assert_allclose(found.scales, rows.std(axis=1), rtol=1e-3)


def test_a_seed_gives_the_same_numbers_everywhere() -> None:
    found = Seeded(7, (4,), "float32").array().tolist()
    assert found == [
        -0.7233352661132812,
        1.541206955909729,
        -0.8435343503952026,
        0.43335628509521484,
    ]


def test_cases_of_the_whole_kit() -> None:
    cases = cases_of(ALL_SUBJECTS)
    names = [case.name for case in cases]
    assert len(set(names)) == len(names)
    assert sum(case.kind == "program" for case in cases) >= 30
    relays = {s.source.num_veus for s in ALL_SUBJECTS if isinstance(s.source, Relay)}
    assert relays >= {2, 16, 132}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pack", "{0}", "--models", "none"], "models: expected some of one-element"),
        (["pack", "{0}", "--target", "cpu"], "target 'cpu': expected a GPU"),
        (["pack", "{0}", "--target", "rocdl:gfx90a"], "expected an NVIDIA GPU, nvvm:CHIP"),
        (["pack", "{0}", "--jobs", "0"], "jobs: expected at least 1, found 0"),
        (["run", "{0}"], "expected a kit with a file kit.json"),
        (["case", "{0}", "x"], "expected a kit with a file kit.json"),
        (["report", "{0}", "--results", "{0}/none"], "expected results of a kit, found none"),
    ],
)
def test_what_is_refused(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "kit"
    assert tool.main([each.format(folder) for each in arguments]) == 1
    errors = capsys.readouterr().err
    assert message in errors and errors.count("\n") == 1
    assert not folder.exists() and not list(tmp_path.iterdir())


def test_a_kit_that_is_too_large_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"expected at most 1 MB, found [\d.]+; allow more"):
        pack(tmp_path / "kit", TARGET, SUBJECTS[1:2], megabytes=1, jobs=1)
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").write_text("")
    with pytest.raises(OptionError, match="expected an empty folder or none; remove it"):
        pack(tmp_path, TARGET, SUBJECTS[1:2], megabytes=60, jobs=1)


def test_an_unknown_case(made: Place, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    output = str(tmp_path / "results.jsonl")
    assert tool.main(["run", str(made.kit), "--cases", "none", "--output", output]) == 1
    assert "case 'none': expected one of the kit, machine" in capsys.readouterr().err
    Path(output).write_text("[1]\n{}\n")
    assert tool.main(["run", str(made.kit), "--output", output]) == 1
    assert "expected results of a kit, a line of JSON for each case" in capsys.readouterr().err


def test_the_floor_of_a_product_is_that_of_its_precision() -> None:
    facts, peaks = ProgramFacts(0.0, 10**12, 10**9, 1), Peaks(1e13, 1e12)
    floors = [floor_seconds(facts, peaks, "nvvm:sm_90+tf32", kind) for kind in ("", "f32", "f16")]
    rates = find_device("h100").flops_per_second
    assert floors == pytest.approx([0.1, 0.1, 0.1 * rates["f32"] / rates["f16"]])
    wide = ProgramFacts(0.0, 10**6, 10**9, 1)
    assert floor_seconds(wide, peaks, "nvvm:sm_90", "f16") == pytest.approx(1e-3)
