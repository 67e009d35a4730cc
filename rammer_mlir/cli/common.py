"""Define one-line errors, exit codes and atomic output files for the command-line tools."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import textwrap
import threading
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn, TextIO

from rammer_mlir import __version__
from rammer_mlir.cli.completion import add_completion_option
from rammer_mlir.errors import ArtifactError, OptionError, RammerError, RammerWarning
from rammer_mlir.support.atomic_file import write_atomically
from rammer_mlir.support.packages import told_if_missing
from rammer_mlir.support.user_warnings import shown_in_one_line

STREAM = "-"
"""File name of standard input or output."""

_LONGEST_MESSAGE = 300
"""Largest number of characters of an unexpected error's text that are shown."""


_ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
"""Signals that end a process, by default without cleanup of temporary files."""


_GRACE = 3.0
"""Seconds after a signal until the process is killed if native code does not return."""


class _Ended(BaseException):
    """The exception that is raised in the main thread when a signal ends the process."""

    def __init__(self, number: int) -> None:
        self.number = number


class ArgumentParser(argparse.ArgumentParser):
    """A parser that raises OptionError for bad arguments, instead of printing usage and exiting."""

    describe_names: Callable[[], str] | None = None
    """Returns the last paragraph of the help, which is expensive to compute."""

    def format_help(self) -> str:
        """Return the help text; ``describe_names``, if it is set, returns the last paragraph."""
        if self.describe_names is not None:
            self.epilog = self.describe_names()
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        """Raise an ``OptionError`` with ``message``, argparse's text about bad arguments."""
        raise OptionError(f"{message}; see {self.prog} --help")


def add_tool_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that all tools have: verbosity, tracebacks, shell completion and version."""
    parser.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="say on standard error what is done, and how long it takes",
    )
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="show no progress, as on a terminal"
    )
    parser.add_argument("--debug", action="store_true", help="print a traceback with an error")
    add_completion_option(parser)
    add_version_option(parser)


def add_version_option(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--version``, which prints the project's version."""
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")


def add_plugin_option(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--plugin``, for modules and files that register extensions."""
    parser.add_argument(
        "--plugin",
        "--load",
        action="append",
        default=[],
        metavar="MODULE|FILE.py",
        help="import a module, or execute a file, that registers policies, passes, devices, ... "
        "(docs/extending.md); may be repeated",
    )


def run_tool(tool: Callable[[], int], *, debug: bool) -> int:
    """Call ``tool``, the body of a command-line tool, and return the exit code.

    The exit code is:

    - the result of ``tool`` if it raises no error
    - 1 after an error, which is printed as one line ``error: ...`` on standard error, or if the
      reader of standard output has closed it
    - 130 after an interrupt
    - 128 plus the signal's number after another signal that ends the process

    With ``debug``, a traceback is printed before the error.
    """
    if sys.stderr is None:  # closed by the shell: discard messages
        sys.stderr = Path(os.devnull).open("w")
    try:
        with _ending_in_order(), told_if_missing(), shown_in_one_line(RammerWarning):
            code = tool()
        if sys.stdout is not None:  # None if the shell closed it
            with _standard_output():
                pass
        return code
    except BrokenPipeError:
        _drop_output()
        return 1
    except KeyboardInterrupt:
        return _report("interrupted", debug, 130)
    except _Ended as ended:
        name = signal.Signals(ended.number).name
        return _report(f"ended by {name}", debug, 128 + ended.number)
    except RammerError as error:
        return _report(str(error), debug, 1)
    except OSError as error:
        where = f"access '{error.filename}'" if error.filename else _failed_action()
        return _report(f"cannot {where}: {error.strerror or error}", debug, 1)
    except MemoryError:
        return _report("out of memory", debug, 1)
    except Exception as error:
        found = textwrap.shorten(f"{type(error).__name__}: {error}", _LONGEST_MESSAGE)
        return _report(f"internal error ({found}); report it with --debug's output", debug, 1)


@contextmanager
def _ending_in_order() -> Generator[None]:
    """Return a context in which a signal that ends the process raises an exception first.

    Cleanup therefore runs before the process ends.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _: FrameType | None) -> None:
        raise _Ended(number)

    before = {number: signal.getsignal(number) for number in _ENDING_SIGNALS}
    ours = [number for number, handler in before.items() if handler == signal.SIG_DFL]
    for number in ours:
        signal.signal(number, end)
    try:
        with _ending_native_code():
            yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def _ending_native_code() -> Generator[None]:
    """Return a context in which a signal ends the process even if native code does not return.

    Python runs signal handlers only between bytecodes, but foreign code may never return. Then the
    process is killed some seconds after the signal.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    is_over = threading.Event()
    watcher = threading.Thread(target=_watch_signals, args=(reader, is_over), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        is_over.set()
        signal.set_wakeup_fd(before)
        os.close(writer)
        watcher.join()
        os.close(reader)


def _watch_signals(reader: int, is_over: threading.Event) -> None:
    while number := os.read(reader, 1):
        if number[0] in (signal.SIGINT, *_ENDING_SIGNALS) and not is_over.wait(_GRACE):
            name = signal.Signals(number[0]).name
            print(f"error: ended by {name}, in native code that did not end", file=sys.stderr)
            sys.stderr.flush()
            os._exit(128 + number[0])


@contextmanager
def _standard_output() -> Generator[TextIO]:
    """Yield standard output, and flush it at the end.

    Raises:
        ArtifactError: if standard output cannot be written.
        BrokenPipeError: if the reader of standard output has closed it.
    """
    if sys.stdout is None:
        raise ArtifactError("cannot write to standard output: it is closed; choose another place")
    try:
        yield sys.stdout
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _drop_output()
        raise ArtifactError(
            f"cannot write to standard output: {error.strerror or error}; choose another place"
        ) from error


def _failed_action() -> str:
    """Return the action that failed with an OSError without file name, as words for a message.

    The action is an access to a file, or a write to standard output. To find out, the function
    flushes standard output: if this fails too, the words are "write to standard output", else
    "access a file".
    """
    try:
        with _standard_output():
            return "access a file"
    except ArtifactError:
        return "write to standard output"


def _drop_output() -> None:
    """Redirect standard output to the null device, so that flushing it at exit does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report(message: str, debug: bool, code: int) -> int:
    if debug:
        traceback.print_exc()
    print("error: " + " ".join(message.split()), file=sys.stderr)
    return code


def is_stream(name: str) -> bool:
    """Whether ``name`` is standard input or a pipe, which can be read only once."""
    return name == STREAM or Path(name).is_fifo()


def read_input(name: str) -> bytes:
    """Return the bytes of the file ``name``, or of standard input for ``-``.

    Raises:
        OptionError: if the file cannot be read.
    """
    if name == STREAM:
        if sys.stdin is None:  # closed by the shell
            raise OptionError("cannot read standard input: it is closed; name a file")
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise OptionError(f"cannot read '{name}': {error.strerror or error}") from error


def write_output(name: str, content: bytes) -> None:
    """Write ``content`` to the file ``name`` atomically, or to standard output for ``-``.

    Raises:
        RammerError: if the file cannot be written.
    """
    if name == STREAM:
        with _standard_output() as output:
            output.buffer.write(content)
    else:
        write_atomically(Path(name), content)
