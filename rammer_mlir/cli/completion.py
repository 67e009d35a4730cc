"""Print scripts with which a shell completes the tools' arguments.

The package shtab makes the scripts from the tools' argument parsers.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from rammer_mlir.support.packages import optional_package

SHELLS = ("bash", "zsh", "tcsh")

_FILES = (
    "compare", "external_data", "input", "inputs", "irdl_file", "mlir_generate_reproducer",
    "mlir_pass_pipeline_crash_reproducer", "mlir_print_ir_tree_dir", "model", "output", "outputs",
    "plugin", "sign", "timeline", "verify_signature",
)  # fmt: skip
"""Names of arguments, in argparse's namespace, that are files or folders."""


class PrintCompletion(argparse.Action):
    """The action of an option: print a completion script for a shell, and exit."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> NoReturn:
        """Print the completion script for the shell that ``values`` names, and exit.

        Raises:
            MissingPackageError: if shtab is not installed.
        """
        print(completion_script(parser, str(values)))
        parser.exit()


def add_completion_option(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--print-completion``, which prints a completion script for a shell."""
    parser.add_argument(
        "--print-completion",
        action=PrintCompletion,
        choices=SHELLS,
        help="print a script with which a shell completes the arguments of this tool",
    )


def completion_script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return a completion script for ``shell``.

    ``parser`` is modified, and must not be used afterwards.

    Raises:
        MissingPackageError: if shtab is not installed.
    """
    shtab = optional_package(
        "shtab", "completion", "install it with 'pip install rammer-mlir[completion]'"
    )
    names = _names()
    for action in parser._actions:  # pyright: ignore[reportPrivateUsage]
        if action.dest in _FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif action.dest in names:
            action.choices = names[action.dest]()
    script: str = shtab.complete(parser, shell)
    return script


def _names() -> Mapping[str, Callable[[], Sequence[str]]]:
    """Return, for each tool argument whose values are names, a function that lists these names.

    The keys are arguments, such as ``policy``. The shell offers the names as completions.
    """
    from rammer_mlir.compiler.backends.registry import backend_names
    from rammer_mlir.compiler.stage_names import KNOWN_STAGES
    from rammer_mlir.scheduling.devices.catalog import all_names
    from rammer_mlir.scheduling.policies import POLICIES

    return {
        "costs": lambda: sorted((*all_names(), "measured")),
        "emit": lambda: KNOWN_STAGES,
        "policy": lambda: sorted(POLICIES.names()),
        "target": lambda: backend_names(),
    }
