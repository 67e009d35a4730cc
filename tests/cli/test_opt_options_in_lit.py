"""Every option that ``rammer-opt --help`` shows occurs in a command of a lit test."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from rammer_mlir.cli.opt_tool.options import opt_parser

LIT_TESTS = Path(__file__).resolve().parents[2] / "lit_tests"

_COMMAND = re.compile(r"RUN:.*\brammer-opt\b(.*)")
_FLAG = re.compile(r"(?<![\w=,-])--?([A-Za-z][\w-]*)")


def used_flags() -> set[str]:
    """Return the names, without dashes, of all flags in commands of ``rammer-opt`` in lit tests."""
    flags: set[str] = set()
    for path in LIT_TESTS.rglob("*.mlir"):
        for arguments in _COMMAND.findall(path.read_text()):
            flags.update(_FLAG.findall(arguments))
    return flags


def test_every_option_occurs_in_a_lit_test() -> None:
    used = used_flags()
    assert "rtask-form-operators" in used and "no-such-option" not in used
    missing = [
        action.option_strings
        for action in opt_parser()._actions  # pyright: ignore[reportPrivateUsage]
        if action.option_strings
        and action.help != argparse.SUPPRESS  # the opposites of switches
        and used.isdisjoint(flag.lstrip("-") for flag in action.option_strings)
    ]
    assert not missing
