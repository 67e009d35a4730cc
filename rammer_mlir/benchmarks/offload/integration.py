"""Count the lines of code that integrate a foreign code generator, without blank lines.

The lines are in the folder of the code generator's class, or in its file if it has no folder, and
in files of ``rammer_mlir/engines`` that are named after it.
"""

from __future__ import annotations

import inspect
from pathlib import Path

from rammer_mlir import codegens

_ENDINGS = (".py", ".c", ".h", ".mlir", ".toml", ".json")


def integration_lines(codegen: object) -> int:
    """Return the number of lines, without blank lines, of the code that integrates ``codegen``.

    ``codegen`` is an object that is registered as a foreign code generator.
    """
    file = Path(inspect.getfile(type(codegen))).resolve()
    room = Path(codegens.__file__).resolve().parent
    if file.is_relative_to(room) and file.parent != room:
        folder = room / file.relative_to(room).parts[0]
        files = [path for path in folder.rglob("*") if path.suffix in _ENDINGS]
    else:
        files = [file]
    engines = room.parent / "engines"
    files += engines.rglob(f"{getattr(codegen, 'name', '-')}*.py")
    return sum(map(_lines, files))


def _lines(file: Path) -> int:
    return sum(bool(line.strip()) for line in file.read_text(encoding="utf-8").splitlines())
