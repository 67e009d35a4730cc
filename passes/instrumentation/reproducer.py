"""Writes reproducers: a module with the pipeline that fails on it, in MLIR's file format.

The pipeline is in the metadata of the file, as ``external_resources`` of ``mlir_reproducer``. The
parser ignores the pipeline; the option ``--run-reproducer`` of ``mlir-opt`` and ``rammer-opt`` runs
the pipeline on the module.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rammer_mlir.bindings import ir
from rammer_mlir.errors import OptionError
from rammer_mlir.passes.instrumentation.base import Instrumentation, WatchedPass
from rammer_mlir.support.atomic_file import write_atomically

_METADATA = re.compile(r"^\{-#(?P<text>.*)#-\}", re.DOTALL | re.MULTILINE)
_REPRODUCER = re.compile(r"\bmlir_reproducer\s*:\s*\{(?P<text>.*)", re.DOTALL)
_PIPELINE = re.compile(r'\bpipeline\s*:\s*(?P<text>"(?:[^"\\]|\\.)*")')
_VERIFY_EACH = re.compile(r"\bverify_each\s*:\s*(?P<value>true|false)")


@dataclass(frozen=True)
class Recorded:
    """The content of a reproducer's metadata.

    Attributes:
        pipeline: the textual pipeline.
        verify_each: whether the module is verified after each pass.
    """

    pipeline: str
    verify_each: bool


def read_reproducer(text: str) -> Recorded:
    """Return the pipeline in the metadata of the reproducer whose content is ``text``.

    The metadata is MLIR's ``external_resources`` with an entry ``mlir_reproducer``.

    Raises:
        OptionError: if the text has no such metadata, or the metadata has no pipeline.
    """
    metadata = _METADATA.search(text)
    found = _REPRODUCER.search(metadata["text"]) if metadata is not None else None
    pipeline = _PIPELINE.search(found["text"]) if found is not None else None
    if found is None or pipeline is None:
        raise OptionError(
            "--run-reproducer: expected external_resources of 'mlir_reproducer' with a pipeline in "
            "the file's metadata, found none: give a file of --mlir-generate-reproducer, or name "
            "the passes"
        )
    verify_each = _VERIFY_EACH.search(found["text"])
    return Recorded(json.loads(pipeline["text"]), verify_each is None or verify_each[1] == "true")


def with_pipeline(text: str, pipeline: str, *, verify_each: bool) -> str:
    """Return a reproducer: the printed module ``text`` and the pipeline as metadata.

    ``verify_each``, whether to verify the module after each pass, is stored with the pipeline.
    """
    each = str(verify_each).lower()
    return (
        f"{text.rstrip()}\n\n"
        "{-#\n  external_resources: {\n    mlir_reproducer: {\n"
        f"      pipeline: {json.dumps(pipeline)},\n"
        "      disable_threading: true,\n"
        f"      verify_each: {each}\n    }}\n  }}\n#-}}\n"
    )


@dataclass
class Reproducer(Instrumentation):
    """Instrumentation that writes a file from which the run of a pipeline can be repeated.

    The file is written before the first pass, so that it exists even if native code ends the
    process. It is removed when all passes have succeeded, unless ``keeps``.

    Attributes:
        path: the path of the file.
        text_of: called with a module; returns its text, which can be parsed.
        verify_each: whether a run of the reproducer verifies the module after each pass.
        local: whether to rewrite the file before each pass, so that after a failure it contains
            only the failing pass and its input.
        keeps: whether to keep the file when all passes have succeeded.
    """

    path: Path
    text_of: Callable[[ir.Module], str]
    verify_each: bool = True
    local: bool = False
    keeps: bool = False
    _is_begun: bool = field(default=False, init=False)

    def before(self, step: WatchedPass, module: ir.Module) -> None:
        """Write the file before the first pass; if ``local``, also before each other pass."""
        if self._is_begun and not self.local:
            return
        self._is_begun = True
        pipeline = f"builtin.module({step.text})" if self.local else step.remaining
        text = with_pipeline(self.text_of(module), pipeline, verify_each=self.verify_each)
        write_atomically(self.path, text.encode())

    def finish(self) -> None:
        """Remove the reproducer's file, unless ``keeps`` is True.

        The caller calls this method only if all passes have succeeded.
        """
        if self._is_begun and not self.keeps:
            self.path.unlink(missing_ok=True)
