"""Find MLIR files in a folder, and split a file into modules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_SEPARATOR = re.compile(r"^// -----.*$", re.MULTILINE)


@dataclass(frozen=True)
class Part:
    """A module of a file.

    Attributes:
        path: path of the file.
        number: index of the module in the file; lines ``// -----`` separate modules.
        text: the module's text. Empty lines replace the earlier lines of the file, so that line
            numbers in messages are those of the file.
    """

    path: Path
    number: int
    text: str


def parts_of(path: Path) -> list[Part]:
    """Return the modules of an MLIR file; lines ``// -----`` separate the modules.

    Modules without text are left out.

    Raises:
        OSError: if the file cannot be read.
        UnicodeDecodeError: if the file is not UTF-8 text.
    """
    text = path.read_text(encoding="utf-8")
    parts: list[Part] = []
    begin = 0
    for content in _SEPARATOR.split(text):
        lines = text.count("\n", 0, begin)
        parts.append(Part(path, len(parts), "\n" * lines + content))
        begin += len(content) + len(text[begin + len(content) :].partition("\n")[0])
    return [part for part in parts if part.text.strip()]


def files_of(folder: Path) -> Iterator[Path]:
    """Yield the paths of the MLIR files in a folder and its subfolders, in sorted order.

    If ``folder`` is a file, yield only that file's path.
    """
    if folder.is_file():
        yield folder
        return
    yield from sorted(path for path in folder.rglob("*.mlir") if path.is_file())
