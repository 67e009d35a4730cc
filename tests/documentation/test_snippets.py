"""The commands of the README, the tutorial and the guide run, and print what the pages show."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from rammer_mlir.cli.compile import compile_parser
from rammer_mlir.cli.opt import ALL_PASSES
from rammer_mlir.cli.opt_tool.options import opt_parser
from rammer_mlir.cli.run import run_parser
from tests.documentation.pages import DOCS, PAGES, Snippet, snippets
from tests.test_layering import ROOT

EXTENDING = DOCS / "extending.md"
EXECUTED = (ROOT / "README.md", DOCS / "tutorial.md", DOCS / "mlir-guide.md", EXTENDING)

_TIME = re.compile(r"\b\d+\.\d+(?= (?:ms|s)\b| to \d)")
"""Measured times, which differ from run to run."""

_NOT_EXECUTED = "not executed: "
_STATUS = re.compile(r"exit status (\d+)")


def run(snippet: Snippet, folder: Path) -> str:
    """Execute a snippet, and return what it prints on both streams.

    Raises:
        AssertionError: if its exit status is not the one that the page names, 0 by default.
    """
    tools = Path(sys.executable).parent
    environment = {
        **os.environ,
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "RAMMER_CACHE_DIR": "",
    }
    command = ["bash", "-o", "pipefail", "-ec"] if snippet.language == "sh" else ["python", "-c"]
    done = subprocess.run(
        [*command, snippet.code], cwd=folder, env=environment, text=True, timeout=300,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    status = _STATUS.search(snippet.note)
    assert done.returncode == (int(status[1]) if status else 0), done.stdout
    return done.stdout


def agrees(shown: str, printed: str) -> bool:
    """Return whether the output that a page shows matches the printed output.

    Times may differ, and ``...`` on the page stands for any lines.
    """
    pattern = re.escape(_TIME.sub("TIME", shown.rstrip())).replace(r"\.\.\.", r"(?:.|\n)*")
    return re.fullmatch(pattern, _TIME.sub("TIME", printed.rstrip())) is not None


def test_outputs_are_compared() -> None:
    assert agrees("took 1.25 ms (from 0.5 to 2.0 ms)\n", "took 3.5 ms (from 1.5 to 2.5 ms)\n")
    assert agrees("first\n...\nlast\n", "first\n2\n3\nlast\n")
    assert not agrees("1 barrier\n", "2 barriers\n")
    assert not agrees("first\n...\n", "second\nfirst\n")


@pytest.mark.parametrize("page", EXECUTED, ids=lambda page: page.name)
def test_snippets_run_and_print_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    """The snippets of a page, run in order and in one folder, print the output on the page.

    A snippet is left out if a comment says why it is not executed.
    """
    executed = 0
    for snippet, following in pairwise([*snippets(page), None]):
        assert snippet is not None
        if snippet.language not in ("sh", "python") or snippet.note.startswith(_NOT_EXECUTED):
            continue
        printed = run(snippet, tmp_path)
        executed += 1
        if following is not None and following.language == "text":
            assert agrees(following.code, printed), f"{page.name}:{following.line}\n{printed}"
    assert executed


USES_OF_EXTENSIONS = """
import numpy as np, onnx.parser, rammer_mlir
from rammer_mlir.bindings import ir
from rammer_mlir.passes.manager import run_pipeline

model = onnx.parser.parse_model(
    '<ir_version: 10, opset_import: ["": 20]> g (float[4,16] x) => (float[4,16] y) {y = Add(x, x)}'
)
x = np.random.default_rng(0).standard_normal((4, 16), np.float32)
asked = []
for owner, name in (
    (OnTwo, "schedule"), (RoundRobin, "schedule"), (Doubling, "offer"), (Simplified, "stages"),
):
    def noted(*arguments, own=getattr(owner, name), name=name):
        result = own(*arguments)
        asked.extend([name] * bool(result))
        return result
    setattr(owner, name, noted)

def noted_costs(rkernel, device):
    asked.append("costs")
    return by_bytes(rkernel, device)

register_costs("noted", noted_costs)

# A sum that is a part of the operation alone: the provider must not take it.
longer = onnx.parser.parse_model(
    '<ir_version: 10, opset_import: ["": 20]> g (float[4,16] x) => (float[4,16] y)'
    ' { a = Add(x, x)  y = Exp(a) }'
)
found = rammer_mlir.compile(longer, rkernels="doubling").run({"x": x})["y"]
np.testing.assert_allclose(found, np.exp(x + x), rtol=1e-5)
assert asked == []
for options in (
    {"policy": "on-two"}, {"policy": "round-robin"}, {"costs": "slow-memory"}, {"costs": "noted"},
    {"rkernels": "doubling"}, {"target": "simplified"},
):
    exe = rammer_mlir.compile(model, **options)
    np.testing.assert_array_equal(exe.run({"x": x})["y"], x + x)
    print(*options.values(), sorted(set(asked)))
    asked.clear()
assert find_device("slow-memory").bytes_per_second == 2e10
with ir.Context(), ir.Location.unknown():
    run_pipeline(ir.Module.parse("func.func @f() { return }"), "builtin.module(count-functions)")
"""


def test_extensions_of_the_page_can_be_used(tmp_path: Path) -> None:
    """All extensions of `docs/extending.md` work in one process, each selected by its name."""
    code = [
        snippet.code
        for snippet in snippets(EXTENDING)
        if snippet.language == "python" and not snippet.note.startswith(_NOT_EXECUTED)
    ]
    assert len(code) == 7
    together = Snippet("python", "\n".join((*code, USES_OF_EXTENSIONS)), "", 0)
    assert run(together, tmp_path).splitlines() == [
        "on-two ['schedule']",
        "round-robin ['schedule']",
        "slow-memory []",
        "noted ['costs']",
        "doubling ['offer']",
        "simplified ['stages']",
        "1",
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_options_in_commands_exist(page: Path) -> None:
    """The tools know all options in a page's commands, also in commands that no test executes."""
    known = {
        parser.prog: set(parser._option_string_actions)  # pyright: ignore[reportPrivateUsage]
        for parser in (compile_parser(), run_parser(), opt_parser())
    }
    known["rammer-opt"] |= {f"--{kind.name}" for kind in ALL_PASSES}
    wrong: list[str] = []
    for snippet in snippets(page):
        if snippet.language != "sh":
            continue
        for line in snippet.code.replace("\\\n", " ").splitlines():
            for command in re.split(r"[|;&]| #", line):
                tool = command.split()[:1]
                if tool and tool[0] in known - {"rammer-opt": 0}.keys():
                    flags = re.findall(r"(?<=\s)--[\w-]+", command)
                    wrong += [flag for flag in flags if flag not in known[tool[0]]]
    assert wrong == []
