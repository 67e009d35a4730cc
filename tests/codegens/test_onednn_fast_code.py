"""Tests that oneDNN computes elementwise functions of whole networks by generated code.

Its reference code, for cases that its code generator does not take, is 40 to 100 times slower.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys
import rammer_mlir
from rammer_mlir.benchmarks.models.feeds import random_feeds
from rammer_mlir.benchmarks.models.registry import build

given = build(sys.argv[1], scale="small")
exe = rammer_mlir.compile(
    given, num_veus=1, offload="onednn", offload_choice="always", cache=False
)
exe.run(random_feeds(given))
"""


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("conv1d", {"eltwise", "binary"}),  # tanh, then a product of two branches
        ("light_densenet121", {"binary"}),  # normalization of channels, in blocks
        ("lstm_bidirectional", {"eltwise", "binary"}),
    ],
)
def test_no_reference_code(name: str, kinds: set[str]) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, name],
        env=os.environ | {"ONEDNN_VERBOSE": "profile_exec"},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line.split(",") for line in run.stdout.splitlines() if ",exec,cpu," in line]
    found = {(each[3], each[4]) for each in lines if each[3] in kinds}
    assert {kind for kind, _ in found} == kinds
    slow = [pair for pair in found if pair[1].startswith("ref")]
    assert not slow
