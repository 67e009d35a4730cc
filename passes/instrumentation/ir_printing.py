"""Prints the IR before and after passes, to a stream or into a folder."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TextIO

from rammer_mlir.bindings import ir
from rammer_mlir.passes.instrumentation.base import Instrumentation, WatchedPass

_NOT_IN_FILE_NAMES = re.compile(r"[^\w.-]")


@dataclass
class IrPrinting(Instrumentation):
    """Instrumentation that prints the whole module before and after passes.

    Attributes:
        text_of: called with a module, which may be invalid; returns the text to print.
        before_all, after_all: print before, or after, each pass.
        before_names, after_names: print before, or after, the passes of these names.
        only_changes: print after a pass only if the pass changed the module; if ``after_names`` is
            empty, this implies ``after_all``.
        after_failure: print the module that a failed pass leaves.
        folder: the folder in which a file is written for each printed module; None to print to
            ``stream``.
        stream: the stream to print to; None for standard error.
    """

    text_of: Callable[[ir.Module], str]
    before_all: bool = False
    after_all: bool = False
    before_names: Collection[str] = ()
    after_names: Collection[str] = ()
    only_changes: bool = False
    after_failure: bool = False
    folder: Path | None = None
    stream: TextIO | None = None
    _last: bytes = field(default=b"", init=False)
    _written: int = field(default=0, init=False)

    def is_on(self) -> bool:
        """Whether any option requests printing."""
        everywhere = self.before_all or self.after_all or self.only_changes or self.after_failure
        return everywhere or bool(self.before_names or self.after_names)

    def before(self, step: WatchedPass, module: ir.Module) -> None:
        """Print the module before a pass, if ``before_all`` or ``before_names`` request it."""
        if self.before_all or step.argument in self.before_names:
            self._print("Before", step, module)
        if self.only_changes and self._is_wanted_after(step):
            self._last = _fingerprint(module)

    def after(self, step: WatchedPass, module: ir.Module) -> None:
        """Print the module after a pass, if the options request it."""
        if not self._is_wanted_after(step):
            return
        if self.only_changes and _fingerprint(module) == self._last:
            return
        self._print("After", step, module)

    def failed(self, step: WatchedPass, module: ir.Module) -> None:
        """Print the module that a failed pass leaves, if the options request it."""
        if self.after_failure or self._is_wanted_after(step):
            self._print("After", step, module, " Failed")

    def _is_wanted_after(self, step: WatchedPass) -> bool:
        by_change_alone = self.only_changes and not self.after_names
        return self.after_all or by_change_alone or step.argument in self.after_names

    def _print(self, when: str, step: WatchedPass, module: ir.Module, ending: str = "") -> None:
        text = f"// -----// IR Dump {when} {step.text}{ending} //----- //\n{self.text_of(module)}\n"
        if self.folder is None:
            print(text, file=self.stream or sys.stderr)
            return
        folder = self.folder / f"builtin_module_{_symbol_of(module)}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self._written}_{step.argument}.mlir").write_text(text)
        self._written += 1


def _symbol_of(module: ir.Module) -> str:
    attributes = module.operation.attributes
    if "sym_name" not in attributes:
        return "no-symbol-name"
    return _NOT_IN_FILE_NAMES.sub("_", ir.StringAttr(attributes["sym_name"]).value)


def _fingerprint(module: ir.Module) -> bytes:
    text: bytes = module.operation.get_asm(
        binary=True, enable_debug_info=True, print_generic_op_form=True, assume_verified=True
    )
    return sha256(text).digest()
